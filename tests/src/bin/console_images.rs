//! Takes the pictures of the operators' console that the documents show: `make console-images`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Parser;
use pix_tests::Database;
use pix_tests::browser::Browser;
use pix_tests::console::Desk;

/// Pixels of a page on a desk, and on a phone.
const WIDE: u32 = 1_200;
const NARROW: u32 = 390;

/// Takes pictures of the console with Chromium.
#[derive(Parser)]
struct Arguments {
    /// The folder that they are written to.
    folder: PathBuf,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = Arguments::parse().folder;
    std::fs::create_dir_all(&folder)?;
    let desk = Desk::open(Database::Sqlite).await?;
    let [ana, bia] = &desk.operators;
    let (overview, lost) = (format!("{}?paused=1", desk.console), desk.page(&desk.lost)?);
    let browser = Browser::start().await?;
    browser.resize(WIDE, 800, 1).await?;
    ana.sign_in(&browser, &desk.console).await?;
    browser.open(&lost).await?;
    ana.decide(&browser, "failed", "not on the statement of 22/11, called the bank").await?;
    browser.click(".who button").await?;
    bia.sign_in(&browser, &desk.console).await?;
    browser.open(&overview).await?;
    take(&browser, WIDE, &folder.join("console-overview.png")).await?;
    browser.open(&lost).await?;
    take(&browser, WIDE, &folder.join("console-withdrawal.png")).await?;
    browser.prefer_dark(true).await?;
    browser.open(&format!("{}/uncertain", desk.console)).await?;
    take(&browser, WIDE, &folder.join("console-uncertain-dark.png")).await?;
    browser.open(&overview).await?;
    take(&browser, NARROW, &folder.join("console-overview-dark-phone.png")).await
}

/// The whole page that is open, as high as it is.
async fn take(browser: &Browser, width: u32, file: &Path) -> anyhow::Result<()> {
    browser.resize(width, 100, 1).await?;
    let height = browser.run("return document.documentElement.scrollHeight").await?;
    let height = height.as_u64().context("a page without a height")?;
    browser.resize(width, u32::try_from(height)?, 1).await?;
    Ok(std::fs::write(file, browser.screenshot().await?)?)
}

//! `pix-gateway man`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::cli::Cli;
use crate::config::SETTINGS;

/// What the foot of each page calls the whole.
const MANUAL: &str = "pix-gateway";

/// Runs the subcommand.
pub fn run(out: &Path) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(out).with_context(|| format!("the folder {} can't be made", out.display()))?;
    for (name, page) in pages()? {
        let path = out.join(name);
        std::fs::write(&path, page).with_context(|| format!("{} can't be written", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The name and text of each page: the program's, and one for each subcommand at any depth.
fn pages() -> std::io::Result<Vec<(String, Vec<u8>)>> {
    // The settings have a section of their own, and `help` no page.
    let mut root = Cli::command().after_long_help("").disable_help_subcommand(true);
    root.build();
    let mut pages = vec![program(&root)?];
    let mut left: Vec<_> = root.get_subcommands().collect();
    while let Some(command) = left.pop() {
        let man = Man::new(command.clone()).manual(MANUAL);
        let mut page = Vec::new();
        man.render(&mut page)?;
        pages.push((man.get_filename(), page));
        left.extend(command.get_subcommands());
    }
    Ok(pages)
}

/// The page of the program: what clap knows, then the settings.
fn program(root: &clap::Command) -> std::io::Result<(String, Vec<u8>)> {
    let man = Man::new(root.clone()).manual(MANUAL);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    man.render_subcommands_section(&mut page)?;
    let mut roff = Roff::new();
    roff.control("SH", ["ENVIRONMENT"]);
    roff.text([roman(
        "In the TOML file of --config the same names, in lower case and without PIX_. The environment wins over the file.",
    )]);
    for setting in SETTINGS {
        roff.control("TP", []);
        roff.text([bold(setting.env), roman(if setting.secret { " (secret)" } else { "" })]);
        let default = setting.default.filter(|default| !default.is_empty());
        let default = default.map(|default| format!(" [default: {default}]")).unwrap_or_default();
        roff.text([roman(format!("{}{default}", setting.what))]);
    }
    roff.control("SH", ["EXIT STATUS"]);
    roff.text([roman(
        "0 when it did what was asked; 1 when it did not, or when what it looked at is not as it should be; 2 when the command line is wrong.",
    )]);
    roff.to_writer(&mut page)?;
    Ok((man.get_filename(), page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_page_for_the_program_and_each_subcommand() {
        let pages = pages().unwrap();
        let names: Vec<_> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for name in ["pix-gateway.1", "pix-gateway-serve.1", "pix-gateway-key.1", "pix-gateway-key-rotate.1"]
        {
            assert!(names.contains(&name), "no {name} in {names:?}");
        }
        for (name, page) in &pages {
            let page = std::str::from_utf8(page).unwrap();
            assert!(page.contains(".SH NAME"), "{name}");
        }
    }

    #[test]
    fn the_page_of_the_program_has_every_setting() {
        let pages = pages().unwrap();
        let (_, page) = pages.iter().find(|(name, _)| name == "pix-gateway.1").unwrap();
        let page = std::str::from_utf8(page).unwrap();
        for setting in SETTINGS {
            assert!(page.contains(setting.env), "no {}", setting.env);
        }
    }
}

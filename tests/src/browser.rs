//! A real browser without a window: Chromium, told what to do by its driver in W3C `WebDriver`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pix_pg_server::Port;
use reqwest::Client;
use serde_json::{Value, json};

use crate::{http_client, text};

/// How long the driver or the browser may take for anything on a machine that is busy.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often something is looked at that is waited for.
const LOOKS_EVERY: Duration = Duration::from_millis(100);
/// How many bytes of its farewell are read.
const LAST_WORDS_BYTES: u64 = 64 * 1024;

/// What is said when there is none.
const MISSING: &str = "Chromium and its driver are needed: apt-get install chromium chromium-driver";

/// What Chromium is started with: no window, nobody's profile, and no talk with anybody but whom it is sent to.
const FLAGS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
];

/// A browser with one page, which ends with this.
pub struct Browser {
    driver: Child,
    port: Port,
    session: String,
    http: Client,
    /// Its profile, and what it takes for its user's home.
    folder: tempfile::TempDir,
}

impl Browser {
    /// Starts one, with a profile of its own that is empty.
    pub async fn start() -> anyhow::Result<Self> {
        let (folder, port) = (tempfile::tempdir()?, Port::reserve()?);
        let driver = Command::new("chromedriver")
            .arg(format!("--port={}", port.number()))
            .env("HOME", folder.path())
            .env("XDG_CONFIG_HOME", folder.path())
            .env("XDG_CACHE_HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context(MISSING)?;
        let http = http_client()?;
        let mut browser = Self { driver, port, session: String::new(), http, folder };
        browser.until_ready().await?;
        let profile = browser.folder.path().join("profile");
        let mut arguments = FLAGS.map(str::to_owned).to_vec();
        arguments.push(format!("--user-data-dir={}", profile.display()));
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let made = browser.send("/session", &capabilities).await.context(MISSING)?;
        browser.session = text(&made, "/sessionId")?;
        Ok(browser)
    }

    async fn until_ready(&mut self) -> anyhow::Result<()> {
        let status = format!("http://127.0.0.1:{}/status", self.port.number());
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok(answer) = self.http.get(&status).send().await {
                let told: Value = answer.json().await?;
                if told.pointer("/value/ready") == Some(&Value::Bool(true)) {
                    return Ok(());
                }
            }
            ensure!(self.driver.try_wait()?.is_none(), "chromedriver ended at its start");
            ensure!(Instant::now() < deadline, "chromedriver does not answer");
            tokio::time::sleep(LOOKS_EVERY).await;
        }
    }

    async fn send(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let url = format!("http://127.0.0.1:{}{path}", self.port.number());
        let answer = self.http.post(url).json(body).timeout(PATIENCE).send().await?;
        let status = answer.status();
        let mut told: Value = answer.json().await?;
        let value = told.get_mut("value").map(Value::take).unwrap_or_default();
        ensure!(status == 200, "{path}: {value}");
        Ok(value)
    }

    async fn command(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.send(&format!("/session/{}{path}", self.session), body).await
    }

    /// Opens an address, and waits until it is there.
    pub async fn open(&self, url: &str) -> anyhow::Result<()> {
        self.command("/url", &json!({"url": url})).await?;
        Ok(())
    }

    /// What a script of the test's own returns, which runs in the page.
    pub async fn run(&self, script: &str) -> anyhow::Result<Value> {
        self.command("/execute/sync", &json!({"script": script, "args": []})).await
    }

    /// Waits until a script returns true.
    pub async fn until(&self, script: &str) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.run(script).await? != Value::Bool(true) {
            if Instant::now() > deadline {
                bail!("never so: {script}\n{}", self.run("return document.body.outerHTML").await?);
            }
            tokio::time::sleep(LOOKS_EVERY).await;
        }
        Ok(())
    }

    /// Clicks on what a CSS selector finds, as a person does.
    pub async fn click(&self, selector: &str) -> anyhow::Result<()> {
        let id = self.element(selector).await?;
        self.command(&format!("/element/{id}/click"), &json!({})).await?;
        Ok(())
    }

    /// Types into what a CSS selector finds, as a person does.
    pub async fn write(&self, selector: &str, text: &str) -> anyhow::Result<()> {
        let id = self.element(selector).await?;
        self.command(&format!("/element/{id}/value"), &json!({"text": text})).await?;
        Ok(())
    }

    async fn element(&self, selector: &str) -> anyhow::Result<String> {
        let found = self.command("/element", &json!({"using": "css selector", "value": selector})).await?;
        let id = found.as_object().and_then(|found| found.values().next()).and_then(Value::as_str);
        Ok(id.with_context(|| format!("no {selector}"))?.to_owned())
    }

    /// A command of the Chrome `DevTools` Protocol.
    pub async fn devtools(&self, command: &str, parameters: Value) -> anyhow::Result<Value> {
        self.command("/goog/cdp/execute", &json!({"cmd": command, "params": parameters})).await
    }

    /// Makes the page that wide and high, in CSS pixels of which each is so many of the picture.
    pub async fn resize(&self, width: u32, height: u32, scale: u32) -> anyhow::Result<()> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": scale, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", size).await?;
        Ok(())
    }

    /// Prefers dark pages, or light ones.
    pub async fn prefer_dark(&self, dark: bool) -> anyhow::Result<()> {
        let value = if dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": value}]});
        self.devtools("Emulation.setEmulatedMedia", features).await?;
        Ok(())
    }

    /// What is seen of the page, as a PNG.
    pub async fn screenshot(&self) -> anyhow::Result<Vec<u8>> {
        let taken = self.devtools("Page.captureScreenshot", json!({"format": "png"})).await?;
        Ok(STANDARD.decode(text(&taken, "/data")?)?)
    }

    /// What the browser has complained of since this was asked before.
    pub async fn complaints(&self) -> anyhow::Result<Vec<Value>> {
        let log = self.command("/se/log", &json!({"type": "browser"})).await?;
        Ok(log.as_array().cloned().unwrap_or_default())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends the browser; the browser outlives a driver that is killed.
        if !self.session.is_empty()
            && let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port.number()))
        {
            let _ = stream.set_read_timeout(Some(PATIENCE));
            let request = format!(
                "DELETE /session/{} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\r\n",
                self.session,
                self.port.number()
            );
            // It answers once the browser has ended, and leaves the line open, whatever it was asked.
            let asked = stream.write_all(request.as_bytes());
            let mut answer = BufReader::new(stream.take(LAST_WORDS_BYTES));
            let _ = asked.and_then(|()| answer.read_line(&mut String::new()));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

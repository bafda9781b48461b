//! Servers that note what they are told: a collector of traces, and whoever else is called.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What a listener does with what it has heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conduct {
    /// Answers 200.
    Takes,
    /// Answers 503.
    Refuses,
    /// Never answers.
    Hangs,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Heard {
    /// Its path and query.
    pub path: String,
    /// Its header fields, their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub body: Vec<u8>,
}

/// A server on this machine, until the runtime ends.
pub struct Listener {
    /// Its address.
    pub url: String,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Listener {
    /// Starts one.
    pub async fn start(conduct: Conduct) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let heard: Arc<Mutex<Vec<Heard>>> = Arc::default();
        let notes = heard.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let notes = notes.clone();
                tokio::spawn(async move { serve(stream, conduct, &notes).await });
            }
        });
        Ok(Self { url, heard })
    }

    /// All that it was told so far.
    pub fn heard(&self) -> Vec<Heard> {
        self.heard.lock().map(|heard| heard.clone()).unwrap_or_default()
    }

    /// The spans among that, for a collector of traces.
    pub fn spans(&self) -> Vec<Span> {
        let heard = self.heard();
        let traces = heard.iter().filter(|one| one.path == "/v1/traces");
        let messages = traces.filter_map(|one| ExportTraceServiceRequest::decode(one.body.as_slice()).ok());
        let scopes = messages.flat_map(|message| message.resource_spans).flat_map(|spans| spans.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }
}

/// Serves one connection until it is closed.
async fn serve(stream: TcpStream, conduct: Conduct, notes: &Mutex<Vec<Heard>>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let path = line.split(' ').nth(1)?.to_owned();
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_lowercase(), value.trim().to_owned());
        }
        let length = headers.get("content-length")?.parse().ok()?;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        notes.lock().ok()?.push(Heard { path, headers, body });
        let status = match conduct {
            Conduct::Takes => "200 OK",
            Conduct::Refuses => "503 Service Unavailable",
            Conduct::Hangs => std::future::pending().await,
        };
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        stream.get_mut().write_all(answer.as_bytes()).await.ok()?;
    }
}

//! The binary, by each of its protocols, in memory and on real servers.

mod http;
mod resp;
mod rls;
mod running;

#[path = "../../src/rls/messages.rs"]
#[allow(dead_code, reason = "the tests read some")]
mod messages;

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ::http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use messages::{Descriptor, Entry, RateLimitRequest, RateLimitResponse};
use serde_json::Value;
use tempfile::TempDir;

/// The rules of most tests.
const RULES: &str = r#"
[[rules]]
name = "users"
when = { domain = "shop" }
id = "user:{user}"
limit = "fixed-window 3/min"

[[rules]]
name = "everybody"
when = { domain = "shop" }
id = "all"
limit = "fixed-window 5/min"
client = { message = "come back later" }

[[rules]]
name = "tokens"
when = { domain = "chat" }
id = "chat:{user}"
limit = "requests: fixed-window 10/min + tokens: fixed-window 1000/min"
cost = [1, "tokens"]

[costs]
tokens = 100
"#;

/// A server that runs, and ends with the test.
struct Running {
    child: Child,
    folder: TempDir,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts one with these rules and arguments, on free ports.
    fn start(rules: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("rules.toml");
        std::fs::write(&file, rules).expect("rules");
        let file = file.to_str().expect("it is text");
        Self::launch(&[&["--rules", file], arguments].concat(), folder)
    }

    /// Starts one with these arguments alone.
    fn without_rules(arguments: &[&str]) -> Self {
        Self::launch(arguments, tempfile::tempdir().expect("a folder"))
    }

    fn launch(arguments: &[&str], folder: TempDir) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockage-server"));
        for port in ["--grpc", "--http", "--resp", "--admin"] {
            command.args([port, "127.0.0.1:0"]);
        }
        let child = command.args(arguments).env_remove("RUST_LOG").stderr(Stdio::piped()).spawn();
        let mut child = child.expect("the server starts");
        let log = Arc::new(Mutex::new(String::new()));
        let (written, lines) = (Arc::clone(&log), child.stderr.take().expect("it is piped"));
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                let mut log = written.lock().expect("no panic");
                log.push_str(&line);
                log.push('\n');
            }
        });
        let mut server = Running { child, folder, log, reader: Some(reader) };
        let begin = Instant::now();
        while server.log().matches("is served").count() < 4 {
            assert!(begin.elapsed() < Duration::from_secs(30), "{}", server.log());
            let ended = server.child.try_wait().expect("it can be asked");
            assert_eq!(ended, None, "{}", server.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    fn log(&self) -> String {
        self.log.lock().expect("no panic").clone()
    }

    fn port(&self, name: &str) -> SocketAddr {
        let (log, sign) = (self.log(), format!("{name} is served"));
        let line = log.lines().find(|line| line.contains(&sign)).expect("it is served");
        let address = line.split_once("address").expect("it has one").1;
        address.trim_matches(|one: char| !one.is_ascii_digit()).parse().expect("an address")
    }

    fn rules(&self) -> PathBuf {
        self.folder.path().join("rules.toml")
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Waits for its end, and returns its log too.
    fn wait(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("it can be awaited");
        self.reader.take().expect("it is joined once").join().expect("no panic");
        (status, self.log())
    }

    async fn get(&self, port: &str, path: &str) -> (StatusCode, String) {
        let request = Request::get(format!("http://{}{path}", self.port(port)));
        let (status, _, text) = send(request.body(Full::default()).expect("a request")).await;
        (status, text)
    }

    async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        let (status, _, body) = self.post_with("HTTP", path, &[], body).await;
        (status, body)
    }

    async fn post_with(
        &self,
        port: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Value,
    ) -> (StatusCode, HeaderMap, Value) {
        let mut request = Request::post(format!("http://{}{path}", self.port(port)))
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::from(body.to_string())).expect("a request");
        let (status, headers, text) = send(request).await;
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        (status, headers, body)
    }

    /// Asks as Envoy does.
    async fn ask(
        &self,
        request: RateLimitRequest,
        timeout: Option<Duration>,
    ) -> Result<RateLimitResponse, tonic::Status> {
        let address = format!("http://{}", self.port("gRPC"));
        let channel = tonic::transport::Channel::from_shared(address).expect("an address");
        let mut client = tonic::client::Grpc::new(channel.connect().await.expect("it connects"));
        client.ready().await.expect("it is ready");
        let mut request = tonic::Request::new(request);
        if let Some(timeout) = timeout {
            request.set_timeout(timeout);
        }
        let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
        let codec = tonic_prost::ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
        let answer = client.unary(request, path.parse().expect("a path"), codec).await;
        answer.map(tonic::Response::into_inner)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn send(request: Request<Full<bytes::Bytes>>) -> (StatusCode, HeaderMap, String) {
    try_send(request).await.expect("it answers")
}

async fn try_send(
    request: Request<Full<bytes::Bytes>>,
) -> Result<(StatusCode, HeaderMap, String), Box<dyn Error>> {
    let client: Client<_, Full<bytes::Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let (head, body) = client.request(request).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok((head.status, head.headers, String::from_utf8(body.to_vec())?))
}

/// Posts to a server that may end meanwhile.
async fn try_post(
    address: SocketAddr,
    path: &str,
    body: Value,
) -> Result<(StatusCode, String), Box<dyn Error>> {
    let request = Request::post(format!("http://{address}{path}"));
    let request = request.header("content-type", "application/json");
    let (status, _, text) = try_send(request.body(Full::from(body.to_string()))?).await?;
    Ok((status, text))
}

fn descriptor(entries: &[(&str, &str)]) -> Descriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).into(), value: (*value).into() };
    Descriptor { entries: entries.iter().map(entry).collect(), ..Descriptor::default() }
}

fn request(domain: &str, descriptors: Vec<Descriptor>) -> RateLimitRequest {
    RateLimitRequest { domain: domain.into(), descriptors, hits_addend: 0 }
}

//! The sample trace is made by this file and kept next to it: twenty-five minutes of a small shop on the web.
//!
//! Everyone in it is invented, and all addresses are of the ranges that are set aside for
//! documentation. To write it anew: `LOCKAGE_WRITE_SAMPLE=1 cargo test -p lockage-sim --test sim sample_trace`.

use std::path::Path;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

#[test]
fn the_sample_trace_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/sample.log");
    let expected = Shop::new().open().log();
    if std::env::var_os("LOCKAGE_WRITE_SAMPLE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap();
    assert!(
        found == expected,
        "{} is not what this file makes; its head says how to write it",
        path.display()
    );
}

const START: &str = "2026-03-02T09:00:00Z";
const MINUTES: u64 = 25;

const BROWSERS: [&str; 4] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.4 Safari/605.1.15",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36",
    r#"Mozilla/5.0 (Linux; Android 15; \"Fern\" tablet) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Mobile Safari/537.36"#,
];
const PAGES: [&str; 7] = [
    "/",
    "/catalog",
    "/catalog?page=2",
    "/item/kettle-1l",
    "/item/teapot-blue",
    "/search?q=tea%20cup",
    "/basket",
];
const ASSETS: [&str; 5] =
    ["/css/shop.css", "/js/shop.js", "/img/logo.svg", "/img/hero.webp", "/img/items.webp"];

/// One line of the log.
struct Line {
    /// When the request came, in milliseconds from the start.
    at: u64,
    /// How long it took, in milliseconds: a server writes a line when it has answered.
    took: u64,
    address: String,
    user: &'static str,
    request: String,
    status: u16,
    /// Bytes sent; none are written as `-`.
    size: u64,
    referer: String,
    agent: &'static str,
}

struct Shop {
    random: ChaCha8Rng,
    lines: Vec<Line>,
}

impl Shop {
    fn new() -> Shop {
        Shop { random: ChaCha8Rng::seed_from_u64(2026), lines: Vec::new() }
    }

    fn open(mut self) -> Shop {
        for visitor in 0..26 {
            self.visitor(visitor);
        }
        self.monitor();
        self.crawler();
        self.scraper();
        self.guesser();
        self.partner_job();
        self.noise();
        self
    }

    /// The lines in the order in which a server writes them, which is not quite that of the requests.
    fn log(mut self) -> String {
        let start: jiff::Timestamp = START.parse().unwrap();
        self.lines.sort_by_key(|line| line.at + line.took);
        let text = self.lines.iter().map(|line| {
            let Line { address, user, request, status, referer, agent, .. } = line;
            let at = start + std::time::Duration::from_millis(line.at);
            let date = at.strftime("%d/%b/%Y:%H:%M:%S +0000");
            let size = if line.size == 0 { "-".to_owned() } else { line.size.to_string() };
            format!("{address} - {user} [{date}] \"{request}\" {status} {size} \"{referer}\" \"{agent}\"\n")
        });
        text.collect()
    }

    /// A visitor that looks at some pages, each with its resources.
    fn visitor(&mut self, number: u64) {
        let address = match number % 4 {
            0 => format!("192.0.2.{}", 10 + number),
            1 => format!("198.51.100.{}", 20 + number),
            2 => format!("203.0.113.{}", 30 + number),
            _ => format!("2001:db8:{:x}::{:x}", 16 + number, self.below(0xffff)),
        };
        let user = ["-", "-", "-", "mara", "-", "-", "ivo"][number as usize % 7];
        let agent = BROWSERS[self.below(4) as usize];
        let mut at = self.below((MINUTES - 4) * 60_000);
        let mut referer =
            ["-", "https://search.example/?q=kettle"][self.below(2) as usize].to_owned();
        for view in 0..2 + self.below(3) {
            let page = PAGES[self.below(7) as usize];
            let size = 4_000 + self.below(20_000);
            self.line(
                at,
                &address,
                user,
                format!("GET {page} HTTP/2.0"),
                200,
                size,
                &referer,
                agent,
            );
            referer = format!("https://shop.example{page}");
            for asset in ASSETS.iter().take(2 + self.below(3) as usize) {
                let (status, size) =
                    if view == 0 { (200, 900 + self.below(60_000)) } else { (304, 0) };
                let at = at + 80 + self.below(1_500);
                self.line(
                    at,
                    &address,
                    user,
                    format!("GET {asset} HTTP/2.0"),
                    status,
                    size,
                    &referer,
                    agent,
                );
            }
            at += 8_000 + self.below(50_000);
        }
    }

    /// A probe twice a minute.
    fn monitor(&mut self) {
        for i in 0..MINUTES * 2 {
            let request = "HEAD /health HTTP/1.1".to_owned();
            self.line(i * 30_000, "192.0.2.200", "-", request, 200, 0, "-", "uptime-probe/1.4");
        }
    }

    /// A search engine that takes its time.
    fn crawler(&mut self) {
        let agent = "Mozilla/5.0 (compatible; ExampleBot/2.1; +https://bot.example/about)";
        self.line(
            95_000,
            "198.51.100.10",
            "-",
            "GET /robots.txt HTTP/1.1".to_owned(),
            200,
            68,
            "-",
            agent,
        );
        for i in 0..40 {
            let at = 100_000 + i * 20_000 + self.below(4_000);
            let (status, size) =
                if i % 9 == 8 { (404, 512) } else { (200, 6_000 + self.below(9_000)) };
            self.line(
                at,
                "198.51.100.10",
                "-",
                format!("GET /item/{} HTTP/1.1", 1000 + i),
                status,
                size,
                "-",
                agent,
            );
        }
    }

    /// A scraper that copies the catalog, three pages a second.
    fn scraper(&mut self) {
        for i in 0..90 {
            let at = 400_000 + i * 333 + self.below(100);
            let size = 9_000 + self.below(4_000);
            let request = format!("GET /catalog?page={} HTTP/1.1", i + 1);
            self.line(at, "203.0.113.66", "-", request, 200, size, "-", "python-requests/2.32.3");
        }
    }

    /// An attacker that guesses passwords, in three goes.
    fn guesser(&mut self) {
        for go in 0..3 {
            for i in 0..18 {
                let at = 700_000 + go * 180_000 + i * 550 + self.below(200);
                let request = "POST /login HTTP/1.1".to_owned();
                self.line(
                    at,
                    "203.0.113.99",
                    "-",
                    request,
                    401,
                    187,
                    "https://shop.example/login",
                    "curl/8.5.0",
                );
            }
        }
    }

    /// A partner's job that asks for everything at once, every ten minutes.
    fn partner_job(&mut self) {
        for run in 0..3 {
            for i in 0..14 {
                let at = run * 600_000 + 1_000 + i * 25;
                let request = format!("GET /api/v1/orders?after={} HTTP/1.1", 7000 + run * 100 + i);
                let size = 300 + self.below(5_000);
                self.line(
                    at,
                    "2001:db8:40::7",
                    "partner-7",
                    request,
                    200,
                    size,
                    "-",
                    "orders-sync/3.0",
                );
            }
        }
    }

    /// Other traffic at a public port.
    fn noise(&mut self) {
        let hello = r"\x16\x03\x01\x00\xF7\x01\x00\x00\xF3\x03\x03";
        self.line(130_000, "198.51.100.77", "-", hello.to_owned(), 400, 157, "-", "-");
        self.line(131_500, "198.51.100.77", "-", "-".to_owned(), 408, 0, "-", "-");
        for (i, path) in ["/.env", "/wp-login.php", "/admin/", "/.git/config"].iter().enumerate() {
            let at = 1_100_000 + i as u64 * 1_200;
            self.line(
                at,
                "198.51.100.201",
                "-",
                format!("GET {path} HTTP/1.1"),
                404,
                153,
                "-",
                "-",
            );
        }
        let odd = r#"https://old.example/\xe4\xf6?\"q\""#;
        self.line(
            512_000,
            "192.0.2.55",
            "-",
            "GET /sale HTTP/1.0".to_owned(),
            301,
            0,
            odd,
            BROWSERS[0],
        );
        self.line(
            1_320_000,
            "192.0.2.91",
            "-",
            "PUT /item/kettle-1l HTTP/1.1".to_owned(),
            500,
            0,
            "-",
            "curl/8.5.0",
        );
    }

    #[expect(clippy::too_many_arguments, reason = "a line of a log has that many fields")]
    fn line(
        &mut self,
        at: u64,
        address: &str,
        user: &'static str,
        request: String,
        status: u16,
        size: u64,
        referer: &str,
        agent: &'static str,
    ) {
        let took = 2 + self.below(400) + size / 200;
        let (address, referer) = (address.to_owned(), referer.to_owned());
        self.lines.push(Line { at, took, address, user, request, status, size, referer, agent });
    }

    fn below(&mut self, bound: u64) -> u64 {
        (u64::from(self.random.next_u32()) * bound) >> 32
    }
}

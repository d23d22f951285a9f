//! A limit for each client in front of actix-web: `cargo run -p lockage-examples --example actix_limited`, and in
//! another terminal `curl -i http://127.0.0.1:3000/`.
//!
//! actix-web is not built on tower, and has types of `http` 0.2. So a middleware makes the head of a request of `http` 1
//! and asks [`RateLimitLayer::check`]. The limit is in memory, or, with `REDIS_URL`, one that all processes share.

#![allow(clippy::print_stdout)]

use std::env;
use std::error::Error;
use std::net::Ipv4Addr;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::error::ErrorInternalServerError;
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::middleware::{Next, from_fn};
use actix_web::{App, HttpMessage, HttpResponse, HttpServer, get, web};
use http::request::Parts;
use lockage::{AnyStore, Decision, Limiter, limit};
use lockage_memory::MemoryStore;
use lockage_redis_rs::RedisStore;
use lockage_tower::{PeerAddr, RateLimit, RateLimitLayer};

type Layer = RateLimitLayer<AnyStore>;

#[actix_web::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = match env::var("REDIS_URL") {
        Ok(url) => AnyStore::new(RedisStore::open(&url)?),
        Err(_) => AnyStore::new(MemoryStore::new()),
    };
    let limit = limit!("token-bucket 100/min burst 20");
    let limiter = Limiter::new(store, limit).with_prefix("hello")?;
    let layer = web::Data::new(RateLimit::per_ip(limiter).build()?);
    let app = move || App::new().app_data(layer.clone()).wrap(from_fn(limited)).service(hello);
    let server = HttpServer::new(app).bind((Ipv4Addr::LOCALHOST, 3000))?;
    println!("http://127.0.0.1:3000/ under {limit}");
    Ok(server.run().await?)
}

#[get("/")]
async fn hello(decision: web::ReqData<Decision>) -> String {
    format!("hello, you have {} left\n", decision.remaining)
}

/// Charges a request before it goes ahead.
///
/// With `reserve` it would also call `settle_by`, and with `in_flight` keep the admission in the body of the response.
async fn limited(
    layer: web::Data<Layer>,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let parts = parts(&request).map_err(ErrorInternalServerError)?;
    let admission = match layer.check(&parts).await {
        Ok(admission) => admission,
        Err(rejection) => {
            let (head, body) = rejection.response().into_parts();
            let status =
                StatusCode::from_u16(head.status.as_u16()).map_err(ErrorInternalServerError)?;
            let mut response = HttpResponse::build(status).body(body);
            append(&head.headers, response.headers_mut())?;
            return Ok(request.into_response(response).map_into_right_body());
        }
    };
    if let Some(decision) = &admission.decision {
        request.extensions_mut().insert(decision.clone());
    }
    let mut response = next.call(request).await?;
    append(&admission.headers, response.headers_mut())?;
    Ok(response.map_into_left_body())
}

/// Returns the head of a request.
fn parts(request: &ServiceRequest) -> Result<Parts, http::Error> {
    let mut head =
        http::Request::builder().method(request.method().as_str()).uri(request.uri().to_string());
    for (name, value) in request.headers() {
        head = head.header(name.as_str(), value.as_bytes());
    }
    if let Some(peer) = request.peer_addr() {
        head = head.extension(PeerAddr(peer));
    }
    Ok(head.body(())?.into_parts().0)
}

/// Appends header fields to those of a response.
fn append(fields: &http::HeaderMap, headers: &mut HeaderMap) -> Result<(), actix_web::Error> {
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_str().as_bytes());
        let value = HeaderValue::from_bytes(value.as_bytes());
        headers.append(
            name.map_err(ErrorInternalServerError)?,
            value.map_err(ErrorInternalServerError)?,
        );
    }
    Ok(())
}

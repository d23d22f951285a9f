//! The port of operators: health, metrics, rules, and the verbs that change what others are in for.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use lockage::limiter::FixedWindow;
use lockage::observer::ErrorKind;
use lockage::{Key, Limit, Store};
use lockage_core::Peek;
use lockage_rules::{LiveRules, Reload};
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::json;
use tokio::sync::watch;

use crate::api::{Problem, problem};
use crate::gate::Storage;

#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) store: Storage,
    pub(crate) rules: Option<Arc<LiveRules>>,
    pub(crate) metrics: PrometheusHandle,
    /// Whether the server ends soon.
    pub(crate) drains: watch::Receiver<bool>,
}

/// Returns the routes of health, metrics and rules.
pub(crate) fn routes(admin: Admin) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/v1/rules", get(rules))
        .route("/v1/rules/reload", post(reload))
        .with_state(admin)
}

/// Ready is a server whose store answers, and that does not end.
async fn ready(State(admin): State<Admin>) -> Response {
    if *admin.drains.borrow() {
        return (StatusCode::SERVICE_UNAVAILABLE, "the server ends\n").into_response();
    }
    match admin.store_answers().await {
        Ok(()) => "ready\n".into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

impl Admin {
    async fn store_answers(&self) -> Result<(), lockage::Error> {
        let limit: Limit =
            FixedWindow::new(1, Duration::from_secs(1)).expect("it is in range").into();
        let seen = self.store.execute(&Key::new("lockage", "readyz")?, &Peek::new(limit, 0)).await;
        Ok(seen.map(drop)?)
    }
}

async fn metrics(State(admin): State<Admin>) -> Response {
    admin.metrics.run_upkeep();
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], admin.metrics.render()).into_response()
}

/// Returns the names of the rules in force, and the mistakes of a file that is not.
#[utoipa::path(get, path = "/v1/rules", tag = "admin", responses(
    (status = 200, description = "`rules`, how often they were `replaced` or a file `failed`, and its `error`", body = Object),
    (status = 404, description = "There is no --rules", body = Problem),
))]
pub(crate) async fn rules(State(admin): State<Admin>) -> Response {
    let Some(rules) = &admin.rules else { return no_rules() };
    let (status, current) = (rules.status(), rules.current());
    let names: Vec<&str> = current.names().collect();
    Json(json!({
        "rules": names,
        "replaced": status.replaced,
        "failed": status.failed,
        "error": status.error,
    }))
    .into_response()
}

fn no_rules() -> Response {
    let detail = "the server has no rules: it was started without --rules".to_owned();
    problem(StatusCode::NOT_FOUND, ErrorKind::Refused, detail)
}

/// Reads the rules now.
#[utoipa::path(post, path = "/v1/rules/reload", tag = "admin", responses(
    (status = 200, description = "`replaced` or `unchanged`", body = String),
    (status = 404, description = "There is no --rules", body = Problem),
    (status = 422, description = "The mistakes, one a line; the old rules are in force", body = String),
))]
pub(crate) async fn reload(State(admin): State<Admin>) -> Response {
    let Some(rules) = admin.rules.clone() else { return no_rules() };
    let read =
        tokio::task::spawn_blocking(move || rules.reload().map_err(|error| error.to_string()));
    match read.await {
        Ok(Ok(Reload::Replaced)) => "replaced\n".into_response(),
        Ok(Ok(Reload::Unchanged)) => "unchanged\n".into_response(),
        Ok(Err(mistakes)) => {
            (StatusCode::UNPROCESSABLE_ENTITY, format!("{mistakes}\n")).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

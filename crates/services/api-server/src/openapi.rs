//! The API's description, made from the routes that are served, so that both always agree.

use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, OpenApi, OpenApiBuilder};

use crate::route_table::{protected_routes, public_routes, report_routes, session_routes};
use crate::session::cookie;

const SECURITY_SCHEME: &str = "bearer";
const SESSION_SCHEME: &str = "session";
const MEMBER_SCHEME: &str = "member";

/// The OpenAPI 3.1 document.
pub fn openapi() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Warpyard")
        .version("v1")
        .description(Some(
            "Submit GPU runs and follow them. Every operation except health needs a bearer token that the Kubernetes \
             API server accepts, or the portal's session, for which such a token was exchanged. Kubernetes RBAC on \
             runs.warpyard.dev, queues.warpyard.dev and nodes decides what the caller may see and do.",
        ))
        .license(Some(utoipa::openapi::LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0")).build()))
        .build();
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A token that the Kubernetes API server accepts: OIDC, or a service account's."))
        .build();
    let session = ApiKeyValue::with_description(
        cookie::NAME,
        "The portal's session. Requests with it must come from the portal's own pages.",
    );
    let member = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("The token of a run's member, in the file WARPYARD_REPORT_TOKEN_FILE of its pod."))
        .build();
    let base = OpenApiBuilder::new()
        .info(info)
        .components(Some(
            ComponentsBuilder::new()
                .security_scheme(SECURITY_SCHEME, SecurityScheme::Http(scheme))
                .security_scheme(MEMBER_SCHEME, SecurityScheme::Http(member))
                .security_scheme(SESSION_SCHEME, SecurityScheme::ApiKey(ApiKey::Cookie(session)))
                .build(),
        ))
        .security(Some(
            [SECURITY_SCHEME, SESSION_SCHEME].map(|scheme| SecurityRequirement::new(scheme, [""; 0])),
        ))
        .build();
    let mut document = base;
    document.merge(public_routes().into_openapi());
    document.merge(session_routes().into_openapi());
    document.merge(report_routes().into_openapi());
    document.merge(protected_routes().into_openapi());
    document
}

/// The document that is served, and committed as `openapi/warpyard.json`.
pub fn openapi_json() -> String {
    let mut json = openapi().to_pretty_json().expect("the document holds nothing that JSON cannot");
    json.push('\n');
    json
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use super::openapi_json;

    fn operations() -> Vec<(String, String, Value)> {
        let document: Value = serde_json::from_str(&openapi_json()).expect("the document is JSON");
        let paths = document["paths"].as_object().expect("paths").clone();
        paths
            .into_iter()
            .flat_map(|(path, item)| {
                let item = item.as_object().expect("a path item").clone();
                item.into_iter().map(move |(method, operation)| (path.clone(), method, operation))
            })
            .collect()
    }

    #[test]
    fn the_committed_document_is_the_one_the_code_makes() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../openapi/warpyard.json");
        let committed = std::fs::read_to_string(path).expect("openapi/warpyard.json exists");
        assert!(committed == openapi_json(), "openapi/warpyard.json is stale: run `cargo xtask codegen`");
    }

    #[test]
    fn every_operation_but_health_needs_a_login_and_says_so() {
        for (path, method, operation) in operations() {
            let is_health = ["/healthz", "/readyz"].contains(&path.as_str());
            let is_public = operation["security"] == serde_json::json!([{}]);
            assert_eq!(is_public, is_health || path == "/v1/session", "{method} {path}");
            if is_public && method == "delete" {
                continue;
            }
            for status in ["401", "403", "503"] {
                assert_eq!(
                    operation["responses"].get(status).is_some(),
                    !is_health || status == "503" && path == "/readyz",
                    "{method} {path} {status}"
                );
            }
        }
    }

    #[test]
    fn every_operation_has_a_name_and_a_summary() {
        let mut names = Vec::new();
        for (path, method, operation) in operations() {
            assert!(operation["summary"].as_str().is_some_and(|text| text.ends_with('.')), "{method} {path}");
            names.push(operation["operationId"].as_str().expect("an operation has an id").to_owned());
        }
        names.sort();
        assert_eq!(
            names,
            [
                "explainRun",
                "getBoard",
                "getCapacity",
                "getHealth",
                "getOpenApi",
                "getQueue",
                "getReadiness",
                "getRun",
                "getRunCost",
                "getSnapshot",
                "listMembers",
                "listNodes",
                "listQueues",
                "listRuns",
                "logIn",
                "logOut",
                "pauseRun",
                "readLogs",
                "reportCost",
                "reportProgress",
                "resumeRun",
                "retryRun",
                "stopRun",
                "streamEvents",
                "submitRun",
                "whoAmI"
            ]
        );
    }
}

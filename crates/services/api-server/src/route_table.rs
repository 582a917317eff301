//! All routes, grouped by who may call them.

use std::sync::Arc;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::routes as operations;
use crate::server::Server;

/// The portal's login and logout. They need no login, and check themselves that our own page calls.
pub(crate) fn session_routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(operations::session::log_in, operations::session::log_out))
}

/// Health: it needs no login.
pub(crate) fn public_routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new()
        .routes(routes!(operations::health::healthz))
        .routes(routes!(operations::health::readyz))
}

/// Reports of members: they need a token of their pod instead of a login.
pub(crate) fn report_routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(operations::reports::report))
}

/// All other routes.
pub(crate) fn protected_routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new()
        .routes(routes!(operations::identity::openapi_document))
        .routes(routes!(operations::identity::whoami))
        .routes(routes!(operations::runs::list))
        .routes(routes!(operations::runs::submit))
        .routes(routes!(operations::runs::get))
        .routes(routes!(operations::runs::why))
        .routes(routes!(operations::asks::stop))
        .routes(routes!(operations::asks::pause))
        .routes(routes!(operations::asks::resume))
        .routes(routes!(operations::asks::retry))
        .routes(routes!(operations::members::list))
        .routes(routes!(operations::logs::read))
        .routes(routes!(operations::queues::list))
        .routes(routes!(operations::queues::get))
        .routes(routes!(operations::board::get))
        .routes(routes!(operations::nodes::list))
        .routes(routes!(operations::capacity::get))
        .routes(routes!(operations::snapshot::get))
        .routes(routes!(operations::events::stream))
        .routes(routes!(operations::cost::of_run))
        .routes(routes!(operations::cost::report))
}

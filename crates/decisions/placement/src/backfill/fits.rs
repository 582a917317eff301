//! Whether a gang fits, by quota and by nodes.

use cluster_model::Fork;
use cluster_model::plan::MemberPlacement;

use crate::gang::Request;
use crate::quota;
use crate::search::Searches;

/// The nodes that the search finds for the gang, on a GPU type of which its queue may have as much. The gang is then
/// left placed in `attempt`.
pub(super) fn fits(
    attempt: &mut Fork<'_>,
    request: &Request,
    searches: &mut Searches,
) -> Option<Vec<MemberPlacement>> {
    for gpu_type in request.gpu_types(attempt) {
        if !quota::exceeded(attempt, request, gpu_type.as_ref()).is_empty() {
            continue;
        }
        let mut inner = attempt.fork();
        if let Ok(members) = searches.place(&mut inner, request, gpu_type.as_ref()) {
            inner.keep();
            return Some(members);
        }
    }
    None
}

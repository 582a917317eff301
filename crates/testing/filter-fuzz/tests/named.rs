//! The named cases, with the verdicts that upstream gave: no oracle is needed. `cargo xtask bench oracle` refreshes them.

use filter_fuzz::named::{self, Named};
use filter_fuzz::ours::disagreements;

#[test]
fn we_agree_with_upstream_on_every_case_on_which_we_once_did_not() {
    let files = named::files().unwrap();
    assert!(!files.is_empty(), "no named case was found");
    let mut wrong = Vec::new();
    for path in files {
        let case = Named::read(&path).unwrap();
        let found = disagreements(&case.judged).unwrap();
        if !found.is_empty() {
            wrong.push(format!("{}: {} ({})", path.display(), found.join("; "), case.why));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! What members need to report: an address, a token for reports only, and the CA that signed the server's
//! certificate.

use k8s_openapi::api::core::v1::{
    DownwardAPIProjection, DownwardAPIVolumeFile, ObjectFieldSelector, ProjectedVolumeSource,
    ServiceAccountTokenProjection, Volume, VolumeMount, VolumeProjection,
};

use api_types::names::{REPORT_AUDIENCE, REPORT_CA_ANNOTATION};

/// The folder with the token and the CA, in a member.
const DIRECTORY: &str = "/warpyard/report";
const VOLUME: &str = "warpyard-report";
const TOKEN: &str = "token";
const CA: &str = "ca.crt";
/// The kubelet renews a token when four fifths of its time are over.
const TOKEN_SECONDS: i64 = 3600;
/// The CA is copied into an annotation of every pod, and all annotations together may have 256 KiB.
const CA_BYTES_MAX: usize = 64 * 1024;
const URL_BYTES_MAX: usize = 1024;

/// The API server as members see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporting {
    url: String,
    ca: Option<String>,
}

/// Why the address cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// A token would cross the network in plain text.
    #[error(
        "the address for reports must begin with https://, or with http:// and an address of this machine, and have at most {URL_BYTES_MAX} bytes"
    )]
    Url,
    /// The CA is too large.
    #[error("the CA for reports must be PEM of at most {CA_BYTES_MAX} bytes")]
    Ca,
}

impl Reporting {
    /// `url` is the API server's, without the path of a route. `ca` (PEM) is needed if its certificate is not
    /// signed by a CA that every image has.
    pub fn new(url: &str, ca: Option<String>) -> Result<Self, Unusable> {
        let url = url.trim_end_matches('/');
        let is_local = |host: &str| {
            let rest = url.strip_prefix("http://").and_then(|rest| rest.strip_prefix(host));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/']))
        };
        let has_host = url.strip_prefix("https://").is_some_and(|rest| !rest.is_empty());
        let is_safe = has_host || ["127.0.0.1", "[::1]", "localhost"].into_iter().any(is_local);
        let is_plain = url.len() <= URL_BYTES_MAX && url.chars().all(|c| c.is_ascii_graphic());
        if !is_safe || !is_plain {
            return Err(Unusable::Url);
        }
        let is_pem = |ca: &String| ca.len() <= CA_BYTES_MAX && ca.contains("-----BEGIN CERTIFICATE-----");
        if !ca.as_ref().is_none_or(is_pem) {
            return Err(Unusable::Ca);
        }
        Ok(Self { url: url.to_owned(), ca })
    }

    /// The variables in a member's environment.
    pub fn variables(&self, namespace: &str, run: &str) -> Vec<(&'static str, String)> {
        let url = format!("{}/v1/namespaces/{namespace}/runs/{run}/reports", self.url);
        let ca = self.ca.as_ref().map(|_| ("WARPYARD_REPORT_CA_FILE", format!("{DIRECTORY}/{CA}")));
        [("WARPYARD_REPORT_URL", url), ("WARPYARD_REPORT_TOKEN_FILE", format!("{DIRECTORY}/{TOKEN}"))]
            .into_iter()
            .chain(ca)
            .collect()
    }

    /// The annotation that the CA's file is made from, so that users' namespaces need no object for it.
    pub fn annotation(&self) -> Option<(String, String)> {
        self.ca.as_ref().map(|ca| (REPORT_CA_ANNOTATION.to_owned(), ca.clone()))
    }

    /// The volume, which the kubelet keeps current, and its mount.
    pub fn volume(&self) -> (Volume, VolumeMount) {
        let token = VolumeProjection {
            service_account_token: Some(ServiceAccountTokenProjection {
                audience: Some(REPORT_AUDIENCE.to_owned()),
                expiration_seconds: Some(TOKEN_SECONDS),
                path: TOKEN.to_owned(),
            }),
            ..VolumeProjection::default()
        };
        let authority = self.ca.as_ref().map(|_| VolumeProjection {
            downward_api: Some(DownwardAPIProjection {
                items: Some(vec![DownwardAPIVolumeFile {
                    path: CA.to_owned(),
                    field_ref: Some(ObjectFieldSelector {
                        api_version: Some("v1".to_owned()),
                        field_path: format!("metadata.annotations['{REPORT_CA_ANNOTATION}']"),
                    }),
                    ..DownwardAPIVolumeFile::default()
                }]),
            }),
            ..VolumeProjection::default()
        });
        let sources = std::iter::once(token).chain(authority).collect();
        let volume = Volume {
            name: VOLUME.to_owned(),
            projected: Some(ProjectedVolumeSource {
                sources: Some(sources),
                ..ProjectedVolumeSource::default()
            }),
            ..Volume::default()
        };
        let mount = VolumeMount {
            name: VOLUME.to_owned(),
            mount_path: DIRECTORY.to_owned(),
            read_only: Some(true),
            ..VolumeMount::default()
        };
        (volume, mount)
    }
}

#[cfg(test)]
mod tests {
    use super::{CA_BYTES_MAX, Reporting, Unusable};

    #[test]
    fn a_token_goes_over_tls_or_stays_on_this_machine() {
        let fine = [
            "https://yard.example",
            "https://yard.example:8443/api/",
            "http://127.0.0.1:1",
            "http://[::1]:1",
        ];
        for url in fine {
            assert!(Reporting::new(url, None).is_ok(), "{url}");
        }
        let wrong = [
            "",
            "https://",
            "http://yard.example",
            "http://localhost.example",
            "ftp://x",
            "https://a b",
            "https://é",
        ];
        for url in wrong {
            assert_eq!(Reporting::new(url, None), Err(Unusable::Url), "{url}");
        }
    }

    #[test]
    fn an_authority_is_pem_and_fits_an_annotation() {
        let pem = "-----BEGIN CERTIFICATE-----\n";
        let new = |ca: String| Reporting::new("https://a", Some(ca));
        assert!(new(pem.to_owned()).is_ok());
        assert_eq!(new("x".to_owned()), Err(Unusable::Ca));
        assert_eq!(new(format!("{pem}{}", "x".repeat(CA_BYTES_MAX))), Err(Unusable::Ca));
    }

    #[test]
    fn a_run_has_its_own_address() {
        let reporting = Reporting::new("https://yard.example/", None).unwrap();
        let variables = reporting.variables("team", "train");
        assert_eq!(
            variables[0],
            ("WARPYARD_REPORT_URL", "https://yard.example/v1/namespaces/team/runs/train/reports".to_owned())
        );
        assert!(variables.iter().all(|(name, _)| *name != "WARPYARD_REPORT_CA_FILE"));
    }
}

//! Asking endpoints of the machine: plain HTTP, no proxy, no redirects, and answers of a bounded size and time.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Response, StatusCode, Url};

/// The longest answer of a metadata endpoint that is read. Real ones have some hundred bytes.
pub const METADATA_BYTES_MAX: usize = 64 * 1024;
/// The longest answer of DCGM exporter that is read: 16 GPUs in 7 parts each, with 60 metrics of 400 bytes, have 2.7 MB.
pub const METRICS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no client.
    #[error("cannot make an HTTP client")]
    Setup(#[source] reqwest::Error),
    /// The setting and the path make no address.
    #[error("cannot make an address of {base} and {path}")]
    Address {
        /// The setting.
        base: Url,
        /// The path.
        path: &'static str,
    },
    /// Nobody answered in time.
    #[error("no answer")]
    Silent(#[source] reqwest::Error),
    /// The answer is too long.
    #[error("an answer of more than {max} bytes")]
    TooLong {
        /// The bound.
        max: usize,
    },
    /// The answer is a refusal.
    #[error("the answer {status}")]
    Status {
        /// Which.
        status: StatusCode,
    },
}

/// Asks one endpoint.
#[derive(Clone, Debug)]
pub struct Http {
    client: Client,
    base: Url,
    bytes_max: usize,
}

/// What an endpoint said.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body, if it is one.
    pub fn ok(self) -> Result<Vec<u8>, Error> {
        if self.status.is_success() { Ok(self.body) } else { Err(Error::Status { status: self.status }) }
    }

    /// The body, or nothing where there is nothing.
    pub fn found(self) -> Result<Option<Vec<u8>>, Error> {
        if self.status == StatusCode::NOT_FOUND { Ok(None) } else { self.ok().map(Some) }
    }
}

impl Http {
    /// For the endpoint at `base`. An answer takes no longer than `timeout`.
    pub fn new(base: Url, timeout: Duration, bytes_max: usize) -> Result<Self, Error> {
        let client = Client::builder()
            // The machine's own metadata: a proxy would answer with those of another machine.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(timeout)
            // It never speaks TLS, so it needs no authorities, which an image may not have.
            .tls_certs_only([])
            .build()
            .map_err(Error::Setup)?;
        Ok(Self { client, base, bytes_max })
    }

    /// Asks for the base itself, or for a path below it.
    pub async fn ask(
        &self,
        method: Method,
        path: &'static str,
        headers: &[(HeaderName, HeaderValue)],
    ) -> Result<Answer, Error> {
        let url = self.base.join(path).map_err(|_| Error::Address { base: self.base.clone(), path })?;
        let request = self.client.request(method, url).headers(headers.iter().cloned().collect());
        let mut response = request.send().await.map_err(Error::Silent)?;
        let body = self.body(&mut response).await?;
        Ok(Answer { status: response.status(), headers: std::mem::take(response.headers_mut()), body })
    }

    async fn body(&self, response: &mut Response) -> Result<Vec<u8>, Error> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(Error::Silent)? {
            if body.len() + chunk.len() > self.bytes_max {
                return Err(Error::TooLong { max: self.bytes_max });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

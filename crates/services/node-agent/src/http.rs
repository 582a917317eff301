//! Requests to endpoints of the machine: plain HTTP, no proxy, no redirects, and answers of bounded size and
//! time.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Response, StatusCode, Url};

/// The longest accepted answer of a metadata endpoint. Real ones have some hundred bytes.
pub const METADATA_BYTES_MAX: usize = 64 * 1024;
/// The longest accepted answer of DCGM exporter: 16 GPUs in 7 parts each, with 60 metrics of 400 bytes, have
/// 2.7 MB.
pub const METRICS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client could not be made.
    #[error("cannot make an HTTP client")]
    Setup(#[source] reqwest::Error),
    /// The setting and the path do not make a valid address.
    #[error("cannot make an address of {base} and {path}")]
    Address {
        /// The setting.
        base: Url,
        /// The path.
        path: &'static str,
    },
    /// There was no answer in time.
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
        /// The HTTP status.
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

/// The answer of an endpoint.
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
    /// The body of a successful answer.
    pub fn ok(self) -> Result<Vec<u8>, Error> {
        if self.status.is_success() { Ok(self.body) } else { Err(Error::Status { status: self.status }) }
    }

    /// The body, or `None` for a 404.
    pub fn found(self) -> Result<Option<Vec<u8>>, Error> {
        if self.status == StatusCode::NOT_FOUND { Ok(None) } else { self.ok().map(Some) }
    }
}

impl Http {
    /// For the endpoint at `base`. An answer takes no longer than `timeout`.
    pub fn new(base: Url, timeout: Duration, bytes_max: usize) -> Result<Self, Error> {
        let client = Client::builder()
            // No proxy: it would return the metadata of another machine.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(timeout)
            // It never uses TLS, so it needs no CAs, which an image may lack.
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

//! Calls about costs.

use api_types::rest::{CostGrouping, CostReport, RunCostView};
use reqwest::{Method, RequestBuilder, header};

use crate::client::{Client, Error, with_query};

/// What to sum, and by what.
#[derive(Clone, Debug, Default)]
pub struct CostFilter {
    /// What rows are summed by.
    pub by: CostGrouping,
    /// The first day, as `2026-11-01`; without it, the first of the month.
    pub since: Option<String>,
    /// The last day; without it, today.
    pub until: Option<String>,
    /// Only of this namespace; without it, of all that the caller may see.
    pub namespace: Option<String>,
    /// Only of this queue and those below it.
    pub queue: Option<String>,
    /// Only work that this user submitted.
    pub user: Option<String>,
    /// The most rows on the page, at most 1,000.
    pub limit: Option<u16>,
    /// The `continue` of the page before.
    pub continue_token: Option<String>,
}

/// A page of a report as CSV, with a header row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvPage {
    /// RFC 4180.
    pub text: String,
    /// Pass this as `continue_token` to get the next page; absent on the last.
    pub continue_token: Option<String>,
}

impl Client {
    /// `getRunCost`
    pub async fn run_cost(&self, namespace: &str, name: &str) -> Result<RunCostView, Error> {
        self.call(self.request(Method::GET, &["v1", "namespaces", namespace, "runs", name, "cost"])).await
    }

    /// `reportCost`
    pub async fn cost_report(&self, filter: &CostFilter) -> Result<CostReport, Error> {
        self.call(self.cost_request(filter)).await
    }

    /// `reportCost`, as CSV
    pub async fn cost_csv(&self, filter: &CostFilter) -> Result<CsvPage, Error> {
        let request = self.cost_request(filter).header(header::ACCEPT, "text/csv");
        let (status, headers, body) = self.answer(request).await?;
        let is_csv = headers
            .get(header::CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.starts_with("text/csv"));
        let text = String::from_utf8(body).ok().filter(|_| is_csv).ok_or_else(|| self.unexpected(status))?;
        let link = headers.get(header::LINK).and_then(|link| link.to_str().ok());
        Ok(CsvPage { text, continue_token: link.and_then(continue_in_link) })
    }

    fn cost_request(&self, filter: &CostFilter) -> RequestBuilder {
        let CostFilter { by, since, until, namespace, queue, user, limit, continue_token } = filter;
        let query = [
            ("by", Some(format!("{by:?}").to_lowercase())),
            ("since", since.clone()),
            ("until", until.clone()),
            ("namespace", namespace.clone()),
            ("queue", queue.clone()),
            ("user", user.clone()),
            ("limit", limit.map(|limit| limit.to_string())),
            ("continue", continue_token.clone()),
        ];
        with_query(self.request(Method::GET, &["v1", "cost"]), query)
    }
}

/// The `continue` of `<?…&continue=TOKEN>; rel="next"`.
fn continue_in_link(link: &str) -> Option<String> {
    let (target, parameters) = link.strip_prefix('<')?.split_once('>')?;
    let (_, query) = target.split_once('?')?;
    let token = query.split('&').find_map(|pair| pair.strip_prefix("continue="))?;
    parameters.contains("rel=\"next\"").then(|| token.to_owned())
}

#[cfg(test)]
mod tests {
    use api_types::rest::CostGrouping;

    use super::{CostFilter, continue_in_link};
    use crate::Client;

    #[test]
    fn only_what_is_asked_for_is_sent_and_names_are_escaped() {
        let client = Client::new("https://example.com", "t").expect("valid");
        let filter = CostFilter {
            by: CostGrouping::Namespace,
            user: Some("a&b c".to_owned()),
            limit: Some(2),
            ..CostFilter::default()
        };
        let request = client.cost_request(&filter).build().expect("builds");
        assert_eq!(request.url().as_str(), "https://example.com/v1/cost?by=namespace&user=a%26b+c&limit=2");
    }

    #[test]
    fn the_next_page_is_read_from_the_link() {
        let next = continue_in_link("<?by=run&continue=6162>; rel=\"next\"");
        assert_eq!(next.as_deref(), Some("6162"));
        for link in ["", "<?by=run>; rel=\"next\"", "<?continue=61>; rel=\"prev\"", "?continue=61"] {
            assert_eq!(continue_in_link(link), None, "{link}");
        }
    }
}

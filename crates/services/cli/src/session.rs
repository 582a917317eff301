//! The server, token and namespace of a command: from flags and environment first, then from the login's file.

use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use api_client::Client;

use crate::args::GlobalArgs;
use crate::config::{self, Config};
use crate::exit::{Exit, Failure};

/// Names the file with the token, if no token is given otherwise.
const TOKEN_FILE_VARIABLE: &str = "WARPYARD_TOKEN_FILE";
/// The longest token read from a file or standard input.
const TOKEN_LENGTH_MAX: u64 = 64 * 1024;

/// Flags, environment and config of one call.
#[derive(Debug)]
pub struct Session {
    global: GlobalArgs,
    config: Config,
    config_path: Option<PathBuf>,
}

impl Session {
    /// Reads the config file.
    pub fn open(global: GlobalArgs) -> Result<Self, Failure> {
        let config_path = config::path();
        let config = match &config_path {
            Some(path) => config::load(path).map_err(|error| unusable(path, &error))?,
            None => Config::default(),
        };
        Ok(Self { global, config, config_path })
    }

    /// A warning if others can read the config file.
    pub fn warning(&self) -> Option<String> {
        let path = self
            .config_path
            .as_ref()
            .filter(|path| self.config.token.is_some() && config::is_exposed(path))?;
        Some(format!("warning: {path} can be read by others: chmod 600 {path}\n", path = path.display()))
    }

    /// A client for the server, with the token for it.
    pub fn client(&self) -> Result<Client, Failure> {
        let server =
            self.global.server.as_deref().or(self.config.server.as_deref()).ok_or_else(not_logged_in)?;
        let token = match self.given_token()? {
            Some(token) => token,
            None => stored_token(&self.config, server).ok_or_else(|| self.no_token_for(server))?,
        };
        Ok(Client::new(server, &token)?)
    }

    /// The namespace, if one is known.
    pub fn namespace(&self) -> Option<&str> {
        self.global.namespace.as_deref().or(self.config.namespace.as_deref())
    }

    /// The namespace, or an error. Without a login, the error is about the login.
    pub fn required_namespace(&self) -> Result<&str, Failure> {
        if self.namespace().is_none() {
            self.client()?;
        }
        self.namespace().ok_or_else(|| {
            Failure::new(Exit::Usage, "in which namespace?").hint(
                "give --namespace NAMESPACE, set WARPYARD_NAMESPACE, or log in with --namespace to make it the default",
            )
        })
    }

    /// A run named as NAME or NAMESPACE/NAME.
    pub fn run_name<'a>(&'a self, run: &'a str) -> Result<(&'a str, &'a str), Failure> {
        match run.split_once('/') {
            Some(named) => Ok(named),
            None => Ok((self.required_namespace()?, run)),
        }
    }

    /// The server and token of a login.
    pub fn login(&self) -> Result<(Client, Config), Failure> {
        let server = self.global.server.as_deref().or(self.config.server.as_deref()).ok_or_else(|| {
            Failure::new(Exit::Usage, "log in to which server?")
                .hint("give --server URL, or set WARPYARD_SERVER")
        })?;
        let token = match self.given_token()? {
            Some(token) => token,
            None => token_from_stdin()?,
        };
        let client = Client::new(server, &token)?;
        // Another server has other namespaces.
        let same_server = self.config.server.as_deref().is_none_or(|stored| stored == server);
        let namespace =
            self.global.namespace.clone().or_else(|| self.config.namespace.clone().filter(|_| same_server));
        let config =
            Config { server: Some(server.to_owned()), token: Some(token.trim().to_owned()), namespace };
        Ok((client, config))
    }

    /// Writes the config file.
    pub fn save(&self, config: &Config) -> Result<PathBuf, Failure> {
        let path = self.config_path.clone().ok_or_else(|| {
            Failure::new(Exit::Failed, "there is no place for the login").hint("set HOME or XDG_CONFIG_HOME")
        })?;
        config::save(&path, config).map_err(|error| unusable(&path, &error))?;
        Ok(path)
    }

    fn no_token_for(&self, server: &str) -> Failure {
        match (&self.config.server, &self.config.token) {
            (Some(stored), Some(_)) => {
                let message = format!("your login is for {stored}, and its token is not sent to {server}");
                Failure::new(Exit::Auth, message).hint("give --token-file FILE too, or log in there")
            }
            _ => not_logged_in(),
        }
    }

    fn given_token(&self) -> Result<Option<String>, Failure> {
        let from_environment = || std::env::var_os(TOKEN_FILE_VARIABLE).filter(|path| !path.is_empty());
        match (&self.global.token_file, &self.global.token) {
            (Some(path), _) => token_from_file(path).map(Some),
            (None, Some(token)) => Ok(Some(token.clone())),
            (None, None) => from_environment().map(|path| token_from_file(Path::new(&path))).transpose(),
        }
    }
}

/// The stored token, if it was stored for this server: it is never sent to another one.
fn stored_token(config: &Config, server: &str) -> Option<String> {
    let same = |stored: &String| stored.trim_end_matches('/') == server.trim_end_matches('/');
    config.server.as_ref().filter(|stored| same(stored)).and(config.token.clone())
}

fn token_from_file(path: &Path) -> Result<String, Failure> {
    let read = std::fs::File::open(path).and_then(read_bounded);
    read.map_err(|error| {
        Failure::new(Exit::Usage, format!("cannot read the token from {}: {error}", path.display()))
    })
}

fn token_from_stdin() -> Result<String, Failure> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Err(Failure::new(Exit::Usage, "where is the token?")
            .hint("give --token-file FILE, or pipe it: my-token-command | warpyard login --server URL"));
    }
    read_bounded(stdin.lock())
        .map_err(|error| Failure::new(Exit::Usage, format!("cannot read the token: {error}")))
}

fn read_bounded(reader: impl Read) -> io::Result<String> {
    let mut text = String::new();
    reader.take(TOKEN_LENGTH_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn not_logged_in() -> Failure {
    Failure::new(Exit::Auth, "you are not logged in").hint("warpyard login --server URL --token-file FILE")
}

fn unusable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("cannot use {}: {error}", path.display()))
        .hint("fix the file, or remove it and log in again")
}

#[cfg(test)]
mod tests {
    use super::{Config, stored_token};

    #[test]
    fn a_stored_token_goes_to_its_own_server_only() {
        let config = Config {
            server: Some("https://a".to_owned()),
            token: Some("secret".to_owned()),
            namespace: None,
        };
        assert_eq!(stored_token(&config, "https://a/").as_deref(), Some("secret"));
        for server in ["https://a.evil", "http://a", "https://b", ""] {
            assert_eq!(stored_token(&config, server), None, "{server}");
        }
    }
}

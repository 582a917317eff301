//! How a command ends. The codes are a contract with scripts.

use std::process::ExitCode;

use api_types::rest::Problem;

/// The exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All went well.
    Ok = 0,
    /// The command failed, or the awaited run failed or was stopped.
    Failed = 1,
    /// The command line, the job file or another input is wrong.
    Usage = 2,
    /// The object does not exist.
    NotFound = 3,
    /// Not logged in, or not allowed.
    Auth = 4,
    /// It exists already, or changed meanwhile.
    Conflict = 5,
    /// A `ResourceQuota` of Kubernetes refuses the run.
    Quota = 6,
    /// The run can never be scheduled as it is.
    Never = 7,
    /// The wait took too long.
    TimedOut = 124,
    /// Ctrl-C.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The output and the exit code of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Data.
    pub stdout: String,
    /// Everything else.
    pub stderr: String,
    /// The exit code.
    pub exit: Exit,
}

impl Output {
    /// Data, with exit code 0.
    pub fn data(stdout: impl Into<String>) -> Self {
        Self { stdout: stdout.into(), stderr: String::new(), exit: Exit::Ok }
    }

    /// The same, with a note on stderr.
    #[must_use]
    pub fn note(mut self, stderr: impl Into<String>) -> Self {
        self.stderr.push_str(&stderr.into());
        self
    }
}

/// What went wrong, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What happened.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
}

impl Failure {
    /// Without a hint.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None }
    }

    /// With what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The output that is printed.
    pub fn into_output(self) -> Output {
        let hint = self.hint.map(|hint| format!("\nhint: {hint}\n")).unwrap_or_default();
        let stderr = crate::render::clean_lines(&format!("error: {}\n{hint}", self.message));
        Output { stdout: String::new(), stderr, exit: self.exit }
    }
}

impl From<api_client::Error> for Failure {
    fn from(error: api_client::Error) -> Self {
        use api_client::Error;
        match error {
            Error::Problem(problem) => problem.into(),
            Error::InvalidServer(_) | Error::PlainText(_) => Self::new(Exit::Usage, error.to_string()),
            Error::MalformedToken => Self::new(Exit::Auth, error.to_string())
                .hint("log in again: warpyard login --server URL --token-file FILE"),
            Error::Transport { .. } => Self::new(Exit::Failed, with_causes(&error))
                .hint("is the address right, and the server up? See `warpyard login --help`"),
            Error::Setup(_) | Error::UnexpectedAnswer { .. } => Self::new(Exit::Failed, with_causes(&error)),
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let exit = match (problem.status, problem.code.as_str()) {
            (_, Problem::QUOTA_EXCEEDED) => Exit::Quota,
            (_, "NoSuchRoute" | "NoSuchMethod") => Exit::Failed,
            (401 | 403, _) => Exit::Auth,
            (404, _) => Exit::NotFound,
            (409, _) => Exit::Conflict,
            (400 | 413 | 415 | 422, _) => Exit::Usage,
            _ => Exit::Failed,
        };
        Self { exit, message: problem.detail, hint: problem.hint }
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use api_types::rest::Problem;

    use super::{Exit, Failure};

    #[test]
    fn every_answer_of_the_server_has_its_exit_code() {
        for (status, code, exit) in [
            (401, "Unauthorized", Exit::Auth),
            (403, "Forbidden", Exit::Auth),
            (403, Problem::QUOTA_EXCEEDED, Exit::Quota),
            (404, "NotFound", Exit::NotFound),
            (404, "NoSuchRoute", Exit::Failed),
            (409, "AlreadyExists", Exit::Conflict),
            (400, "InvalidQuery", Exit::Usage),
            (422, "Invalid", Exit::Usage),
            (500, "Internal", Exit::Failed),
            (503, "Busy", Exit::Failed),
        ] {
            let problem = Problem { status, code: code.to_owned(), detail: "d".to_owned(), hint: None };
            assert_eq!(Failure::from(problem).exit, exit, "{status} {code}");
        }
    }

    #[test]
    fn the_numbers_are_the_ones_promised() {
        let codes = [
            (Exit::Ok, 0),
            (Exit::Failed, 1),
            (Exit::Usage, 2),
            (Exit::NotFound, 3),
            (Exit::Auth, 4),
            (Exit::Conflict, 5),
            (Exit::Quota, 6),
            (Exit::Never, 7),
            (Exit::TimedOut, 124),
            (Exit::Interrupted, 130),
        ];
        for (exit, number) in codes {
            assert_eq!(exit as u8, number);
        }
    }

    #[test]
    fn an_error_says_what_happened_then_what_to_do() {
        let output = Failure::new(Exit::NotFound, "there is no run `a/b`").hint("warpyard ls").into_output();
        insta::assert_snapshot!(output.stderr, @r"
        error: there is no run `a/b`

        hint: warpyard ls
        ");
        assert_eq!(output.stdout, "");
    }

    #[test]
    fn what_a_server_says_cannot_steer_the_terminal() {
        let output = Failure::new(Exit::Failed, "a\u{1b}[2Jb\rc").into_output();
        assert_eq!(output.stderr, "error: a\u{fffd}[2Jb\u{fffd}c\n");
    }
}

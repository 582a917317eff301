//! The judge must find each fault: every test spoils a good plan or history in one way.

mod histories;
mod plans;

//! The judge must find each fault: every test spoils a good plan or history in one way.

mod build;
mod devices;
mod evictions;
mod histories;
mod local;
mod neighbours;
mod outruns;
mod plans;
mod terms;
mod tidying;

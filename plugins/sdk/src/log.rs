//! Lines for the operator's log, marked with the plugin's name by the host. Their number and size are limited.

use crate::bindings::base::runner::policy::log::{Level, write};

/// For whoever looks into the plugin.
pub fn debug(message: &str) {
    write(Level::Debug, message);
}

/// What an operator may want to know.
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// What an operator should look at some time.
pub fn warn(message: &str) {
    write(Level::Warn, message);
}

/// What an operator should look at now.
pub fn error(message: &str) {
    write(Level::Error, message);
}

//! Changes of the files that the policy is made of: which are taken, which are refused, and what a restart serves.

mod files;
mod kept;
mod killed;
mod process;
mod shadow;

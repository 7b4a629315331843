//! For tests of a runtime: a domain in memory, and what every domain is to do.

//! Each directive and each flag of the servers whose configurations are read has a row that starts the real program. A
//! directive without a row fails the test of its server.

mod rows;

mod apache;
mod boa;
mod busybox;
mod caddy;
mod lighttpd;
mod nginx;
mod thttpd;
mod uhttpd;

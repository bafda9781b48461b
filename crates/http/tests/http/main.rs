//! The HTTP interface over real sockets, with the reference store and a provider that answers as told.

#[cfg(test)]
mod bodies;
#[cfg(test)]
mod callbacks;
#[cfg(test)]
mod commands;
#[cfg(test)]
mod compatibility;
#[cfg(test)]
mod document;
#[cfg(test)]
mod edge;
#[cfg(test)]
mod events;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod matrix;
#[cfg(test)]
mod outgoing_limits;
#[cfg(test)]
mod overload;
#[cfg(test)]
mod pay;
#[cfg(test)]
mod postbacks;
#[cfg(test)]
mod qrcode;
#[cfg(test)]
mod receipts;
#[cfg(test)]
mod shared_limits;
#[cfg(test)]
mod splits;
#[cfg(test)]
mod statement;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tenancy;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod token;
#[cfg(test)]
mod v1;
#[cfg(test)]
mod v2;

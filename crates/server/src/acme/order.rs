//! One order at an authority (RFC 8555 §7.4): account, order, challenges, certificate.

use std::cell::RefCell;
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, Identifier, KeyAuthorization,
    NewOrder, Order, OrderStatus, Problem, RetryPolicy,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use site::certificates::{Certificates, Challenge};
use zeroize::Zeroizing;

use super::account::{AccountKey, BAD_NONCE, Binding, Directory};
use super::dns::{self, Change, Record};
use super::https::Client;
use super::issue::{self, Pair};
use super::report::KnownAccount;
use super::schedule::Failure;
use super::stored;
use crate::log;

/// Between looks at an order.
const FIRST_DELAY: Duration = Duration::from_millis(250);
/// Orders one after another, when the authority rejects nonce after nonce (RFC 8555 §6.5).
const ORDERS: usize = 3;

/// Authorizations for each name of an order. Most authorities have one; their policy decides (RFC 8555 §7.1.3).
const AUTHORIZATIONS_PER_NAME: usize = 4;

/// An ACME client (RFC 8555): what all orders need.
pub struct AcmeClient {
    pub settings: Certificates,
    pub key: AccountKey,
    pub binding: Option<Binding>,
    pub https: Client,
}

/// A certificate to order.
pub struct Request<'a> {
    pub names: &'a [String],
    /// The directory of the authority.
    pub authority: &'a str,
    pub challenge: Challenge,
    /// The identifier of the certificate that this one replaces, if the same authority has issued it.
    pub replaces: Option<&'a str>,
}

/// A finished order.
pub struct Finished {
    /// The directory of the authority.
    pub authority: String,
    pub pem: Zeroizing<String>,
    pub account: KnownAccount,
}

#[derive(Debug)]
pub struct OrderError {
    pub failure: Failure,
    pub text: String,
    pub account: Option<KnownAccount>,
}

/// Answers challenges where the authority looks for them, and remembers what has to be taken back.
pub trait Responder {
    /// Answers TLS-ALPN-01 challenges for the name by this certificate. Errors: no worker does.
    fn respond(&self, name: &str, pair: &Pair) -> impl Future<Output = Result<(), String>>;

    /// The challenge is over.
    fn withdraw(&self, name: &str) -> impl Future<Output = ()>;

    /// The record is set next. If this process is killed, the next one removes it.
    fn remember(&self, record: &Record) -> impl Future<Output = ()>;

    /// The record has been removed, or cannot be.
    fn forget(&self, record: &Record) -> impl Future<Output = ()>;
}

/// What was set up for a challenge, until it is over.
#[derive(Clone)]
enum Answer {
    /// In handshakes with this server name.
    Certificate(String),
    Record(Record),
}

/// The answers to the challenges of an order. One that is given up leaves those to open challenges here.
struct Answers<'a, R> {
    settings: &'a Certificates,
    responder: &'a R,
    open: RefCell<Vec<Answer>>,
}

impl<R: Responder> Answers<'_, R> {
    /// Answers the challenge of one name. Errors: why it cannot be answered.
    async fn add(&self, challenge: Challenge, name: &str, proof: &KeyAuthorization) -> Result<(), String> {
        match challenge {
            // The workers have the account's thumbprint, or the record stays.
            Challenge::Http | Challenge::DnsPersist => Ok(()),
            Challenge::TlsAlpn => {
                let digest = super::crypto::sha256(proof.as_str().as_bytes());
                let pair = issue::challenge(name, &digest)?;
                let server = server_name(name);
                self.open.borrow_mut().push(Answer::Certificate(server.clone()));
                self.responder.respond(&server, &pair).await
            }
            Challenge::Dns => {
                let record = Record::of_challenge(name, proof.dns_value());
                // The program may be ended when it has set the record.
                self.open.borrow_mut().push(Answer::Record(record.clone()));
                self.responder.remember(&record).await;
                let set = dns::run(self.settings, Change::Set, &record).await;
                if set.is_err() {
                    self.responder.forget(&record).await;
                    self.open.borrow_mut().pop();
                }
                set
            }
        }
    }

    fn has_records(&self) -> bool {
        self.open.borrow().iter().any(|answer| matches!(answer, Answer::Record(_)))
    }

    async fn take_back(&self) {
        loop {
            let Some(answer) = self.open.borrow().last().cloned() else { return };
            match answer {
                Answer::Certificate(name) => self.responder.withdraw(&name).await,
                Answer::Record(record) => {
                    // A record that stays does no harm, but to the list of records.
                    if let Err(why) = dns::run(self.settings, Change::Unset, &record).await {
                        log::warn(format_args!("the record {} stays: {why}", record.name));
                    }
                    self.responder.forget(&record).await;
                }
            }
            // Now: an order that is given up meanwhile takes it back once more.
            self.open.borrow_mut().pop();
        }
    }
}

impl OrderError {
    fn new(failure: Failure, text: impl Into<String>) -> OrderError {
        OrderError { failure, text: text.into(), account: None }
    }

    fn of_authority(text: String) -> OrderError {
        OrderError::new(Failure::Authority, text)
    }
}

/// Orders a certificate within the time of the settings, and until `given_up` is ready.
pub async fn order(
    client: &AcmeClient,
    request: &Request<'_>,
    responder: &impl Responder,
    given_up: impl Future<Output = ()>,
) -> Result<Finished, OrderError> {
    let time = client.settings.order_timeout;
    let answers = Answers { settings: &client.settings, responder, open: RefCell::default() };
    let running = RunningOrder { client, request, answers: &answers, https: client.https.for_order() };
    let ordered = tokio::select! {
        ordered = running.run() => ordered,
        () = tokio::time::sleep(time) => {
            let text = format!("the order was not finished within {} s", time.as_secs_f32());
            Err(OrderError::of_authority(text))
        }
        () = given_up => Err(OrderError::new(Failure::Here, "the order was given up")),
    };
    // Nothing, if the order has finished.
    answers.take_back().await;
    ordered
}

fn is_bad_nonce(error: &Error) -> bool {
    matches!(error, Error::Api(problem) if problem.r#type.as_deref() == Some(BAD_NONCE))
}

/// Whether this is the error of a validation (RFC 8555 §6.7), and not of a request.
fn is_of_validation(error: &Error) -> bool {
    let Error::Api(problem) = error else { return false };
    let name = problem.r#type.as_deref().and_then(|name| name.strip_prefix("urn:ietf:params:acme:error:"));
    matches!(name, Some("caa" | "connection" | "dns" | "incorrectResponse" | "tls" | "unauthorized"))
}

/// Errors: the authority asks for more than a small machine has memory for.
fn check_count(authorizations: usize, names: usize) -> Result<(), OrderError> {
    let most = names * AUTHORIZATIONS_PER_NAME;
    if authorizations <= most {
        return Ok(());
    }
    let text =
        format!("the order has {authorizations} authorizations; for its names, at most {most} are accepted");
    Err(OrderError::of_authority(text))
}

/// An order, until it has ended.
struct RunningOrder<'a, R> {
    client: &'a AcmeClient,
    request: &'a Request<'a>,
    answers: &'a Answers<'a, R>,
    /// For this order alone.
    https: Client,
}

impl<R: Responder> RunningOrder<'_, R> {
    fn failed(&self, why: String) -> OrderError {
        match self.https.retry_after() {
            Some(until) => OrderError::new(Failure::RateLimited(seconds(until)), why),
            None => OrderError::of_authority(why),
        }
    }

    fn error(&self, error: Error) -> OrderError {
        match is_bad_nonce(&error) {
            true => OrderError::new(Failure::Nonce, error.to_string()),
            false => self.failed(error.to_string()),
        }
    }

    async fn run(&self) -> Result<Finished, OrderError> {
        let authority = self.request.authority;
        let AcmeClient { settings, key, binding, .. } = self.client;
        let directory = Directory::fetch(&self.https, authority).await.map_err(|why| self.failed(why))?;
        let account = directory.account(&self.https, key, settings.email.as_deref(), binding.as_ref()).await;
        let url = account.map_err(|why| self.failed(why))?;
        let mut ordered = self.attempt(&url).await;
        for _ in 1..ORDERS {
            if ordered.as_ref().is_err_and(|error| error.failure == Failure::Nonce) {
                ordered = self.attempt(&url).await;
            }
        }
        let account = KnownAccount { url, issuer: directory.issuer };
        match ordered {
            Ok(pem) => Ok(Finished { authority: authority.to_owned(), pem, account }),
            Err(error) => Err(OrderError { account: Some(account), ..error }),
        }
    }

    /// `account`: its URL.
    async fn attempt(&self, account: &str) -> Result<Zeroizing<String>, OrderError> {
        let (key, authority) = (self.client.key.key.clone_key(), self.request.authority.to_owned());
        let builder = Account::builder_with_http(Box::new(self.https.clone()));
        let account = builder.from_parts(account.to_owned(), key, authority).await;
        let account = account.map_err(|error| self.error(error))?;
        let mut order = self.begin(&account).await?;
        check_count(order.state().authorizations.len(), self.request.names.len())?;
        self.prove(&mut order).await?;
        self.finish(&mut order).await
    }

    async fn begin(&self, account: &Account) -> Result<Order, OrderError> {
        let identifier = |name: &String| match name.parse::<IpAddr>() {
            Ok(address) => Identifier::Ip(address),
            Err(_) => Identifier::Dns(name.to_ascii_lowercase()),
        };
        let identifiers: Vec<Identifier> = self.request.names.iter().map(identifier).collect();
        let new = || {
            let new = NewOrder::new(&identifiers);
            match &self.client.settings.profile {
                Some(profile) => new.profile(profile),
                None => new,
            }
        };
        if let Some((key, serial)) = self.request.replaces.and_then(|id| id.split_once('.')) {
            let replaced =
                CertificateIdentifier { authority_key_identifier: key.into(), serial: serial.into() };
            match account.new_order(&new().replaces(replaced)).await.map_err(|error| self.error(error)) {
                Ok(order) => return Ok(order),
                Err(error) if matches!(error.failure, Failure::RateLimited(_) | Failure::Nonce) => {
                    return Err(error);
                }
                // The authority does not support it; or it does not let this certificate be replaced, as when another
                // order has replaced it, or when it was issued for another account (RFC 9773 §5).
                Err(_) => {}
            }
        }
        account.new_order(&new()).await.map_err(|error| self.error(error))
    }

    /// Passes the challenges of all names, and takes back what was set up for them, whether they have been passed or
    /// not.
    async fn prove(&self, order: &mut Order) -> Result<(), OrderError> {
        let proved = match self.set_up(order).await {
            Ok(()) => self.await_validation(order).await,
            Err(error) => Err(error),
        };
        self.answers.take_back().await;
        proved
    }

    async fn set_up(&self, order: &mut Order) -> Result<(), OrderError> {
        let challenge = self.request.challenge;
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(|error| self.error(error))?;
            match authorization.status {
                AuthorizationStatus::Valid => continue,
                AuthorizationStatus::Pending => {}
                _ => return Err(OrderError::new(Failure::Challenge, "an earlier challenge has failed")),
            }
            let Some(offered) = authorization.challenge(kind(challenge)) else {
                let text = format!("the authority offers no challenge {}", challenge.name());
                return Err(OrderError::new(Failure::Challenge, text));
            };
            let (name, proof) = (offered.identifier().to_string(), offered.key_authorization());
            let answered = self.answers.add(challenge, &name, &proof).await;
            answered.map_err(|why| OrderError::new(Failure::Challenge, why))?;
        }
        if self.answers.has_records() {
            tokio::time::sleep(self.client.settings.dns_wait).await;
        }
        self.report_ready(order).await
    }

    /// Has the authority validate what is answered.
    async fn report_ready(&self, order: &mut Order) -> Result<(), OrderError> {
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(|error| self.error(error))?;
            if authorization.status == AuthorizationStatus::Pending
                && let Some(mut offered) = authorization.challenge(kind(self.request.challenge))
            {
                match offered.set_ready().await {
                    Ok(()) => {}
                    // The validation has failed before the response, and the order with it.
                    Err(error) if is_of_validation(&error) => break,
                    Err(error) => return Err(self.error(error)),
                }
            }
        }
        Ok(())
    }

    async fn await_validation(&self, order: &mut Order) -> Result<(), OrderError> {
        let challenge = self.request.challenge.name();
        // The rest is for what comes before and behind it, so that the next challenge gets its turn.
        let policy = self.policy().timeout(self.client.settings.order_timeout / 2);
        match order.poll_ready(&policy).await {
            Ok(OrderStatus::Ready | OrderStatus::Valid) => Ok(()),
            Err(Error::Timeout(_)) => {
                let text = format!("the authority has not decided in time on the challenge {challenge}");
                Err(OrderError::new(Failure::Challenge, text))
            }
            // Errors of a request: they say nothing about the challenge.
            Err(error) if is_bad_nonce(&error) || self.https.retry_after().is_some() => {
                Err(self.error(error))
            }
            Ok(_) | Err(Error::Api(_)) => {
                let hint = match self.request.challenge {
                    Challenge::DnsPersist => "; `taipan certificates` shows the record to make",
                    _ => "",
                };
                let text = format!("the challenge {challenge} has failed: {}{hint}", reasons(order).await);
                Err(OrderError::new(Failure::Challenge, text))
            }
            Err(error) => Err(self.error(error)),
        }
    }

    /// The chain, with its key behind it.
    async fn finish(&self, order: &mut Order) -> Result<Zeroizing<String>, OrderError> {
        let here = |why: String| OrderError::new(Failure::Here, why);
        let names: Vec<String> = self.request.names.iter().map(|name| name.to_ascii_lowercase()).collect();
        let (signing_request, key) = issue::request(&names, self.client.settings.key).map_err(here)?;
        order.finalize_csr(&signing_request).await.map_err(|error| self.error(error))?;
        let chain = order.poll_certificate(&self.policy()).await.map_err(|error| self.error(error))?;
        let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|_| OrderError::of_authority("it sent no certificate".to_owned()))?;
        let pem = Pair { chain, key }.pem();
        let checked = stored::check(pem.as_bytes(), self.request.names);
        checked.map_err(|why| OrderError::of_authority(format!("it sent what cannot be served: {why}")))?;
        Ok(pem)
    }

    fn policy(&self) -> RetryPolicy {
        RetryPolicy::new().initial_delay(FIRST_DELAY).backoff(1.5).timeout(self.client.settings.order_timeout)
    }
}

/// Why challenges have failed, by name.
async fn reasons(order: &mut Order) -> String {
    let mut reasons = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if authorization.refresh().await.is_err() {
            continue;
        }
        let name = authorization.identifier().to_string();
        let errors = authorization.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
        let text = |error: &Problem| format!("{name}: {}", error.detail.as_deref().unwrap_or("no reason"));
        reasons.extend(errors.map(text));
    }
    if reasons.is_empty() { "the authority gives no reason".to_owned() } else { reasons.join("; ") }
}

fn kind(challenge: Challenge) -> ChallengeType {
    match challenge {
        Challenge::TlsAlpn => ChallengeType::TlsAlpn01,
        Challenge::Http => ChallengeType::Http01,
        Challenge::Dns => ChallengeType::Dns01,
        Challenge::DnsPersist => ChallengeType::Unknown(challenge.name().to_owned()),
    }
}

/// The name by which an authority asks for the certificate of a TLS-ALPN-01 challenge. An address has one, too (RFC 8738
/// §6).
fn server_name(name: &str) -> String {
    match name.parse() {
        Ok(IpAddr::V4(address)) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        Ok(IpAddr::V6(address)) => {
            let digits = address.octets().into_iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
            digits.map(|digit| format!("{digit:x}.")).collect::<String>() + "ip6.arpa"
        }
        Err(_) => name.to_owned(),
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_asks_for_an_address_by_a_name() {
        assert_eq!(server_name("a.example"), "a.example");
        // The examples of RFC 8738 §6.
        assert_eq!(server_name("192.0.2.69"), "69.2.0.192.in-addr.arpa");
        assert_eq!(
            server_name("2001:db8::2"),
            "2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa"
        );
    }

    #[test]
    fn a_failed_validation_is_no_failed_request() {
        for (name, expected) in
            [("connection", true), ("unauthorized", true), ("rateLimited", false), ("badNonce", false)]
        {
            let problem = format!(r#"{{"type":"urn:ietf:params:acme:error:{name}","detail":"d"}}"#);
            let error = Error::Api(serde_json::from_str(&problem).expect("it is a problem"));
            assert_eq!(is_of_validation(&error), expected, "{name}");
        }
    }
}

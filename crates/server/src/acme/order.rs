//! One order at an authority (RFC 8555 §7.4): account, order, challenges, certificate.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, Identifier, NewOrder, Order,
    OrderStatus, RetryPolicy,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use site::certificates::{Certificates, Challenge};
use zeroize::Zeroizing;

use super::account::{AccountKey, BAD_NONCE, Binding, Directory};
use super::dns::{self, Change, Record};
use super::https::Client;
use super::issue::{self, Pair};
use super::schedule::Failure;
use crate::log;

/// Between looks at an order.
const FIRST_DELAY: Duration = Duration::from_millis(250);
/// Orders one after another, when the authority rejects nonce after nonce (RFC 8555 §6.5).
const ORDERS: usize = 3;
/// The authority knows another order that replaces the certificate (RFC 9773 §5).
const ALREADY_REPLACED: &str = "urn:ietf:params:acme:error:alreadyReplaced";
const RATE_LIMITED: &str = "urn:ietf:params:acme:error:rateLimited";

/// What all orders need.
pub struct Context {
    pub settings: Certificates,
    pub key: AccountKey,
    pub binding: Option<Binding>,
    pub client: Client,
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
    pub account: String,
    pub issuer: Option<String>,
}

#[derive(Debug)]
pub struct OrderError {
    pub failure: Failure,
    pub text: String,
    /// The account and the issuer, which a record for DNS-PERSIST-01 needs.
    pub account: Option<(String, Option<String>)>,
}

/// Answers challenges where the authority looks for them.
pub trait Responder {
    /// Answers TLS-ALPN-01 challenges for the name by this certificate. Errors: no worker does.
    fn respond(&self, name: &str, pair: &Pair) -> impl Future<Output = Result<(), String>>;

    /// The challenge is over.
    fn withdraw(&self, name: &str) -> impl Future<Output = ()>;
}

/// What a challenge needs until it is over.
enum Answer {
    /// The workers have the account's thumbprint, or the record stays.
    Permanent,
    Certificate(String),
    Record(Record),
}

impl OrderError {
    fn new(failure: Failure, text: impl Into<String>) -> OrderError {
        OrderError { failure, text: text.into(), account: None }
    }

    fn of_authority(text: String) -> OrderError {
        OrderError::new(Failure::Authority, text)
    }
}

pub async fn order(
    context: &Context,
    request: &Request<'_>,
    responder: &impl Responder,
) -> Result<Finished, OrderError> {
    context.client.retry_after().take();
    let Context { settings, key, binding, client } = context;
    let directory = Directory::fetch(client, request.authority).await.map_err(|why| context.failed(why))?;
    let account = directory.account(client, key, settings.email.as_deref(), binding.as_ref()).await;
    let id = account.map_err(|why| context.failed(why))?;
    let known = (id.clone(), directory.issuer.clone());
    let attempt = async || {
        let builder = Account::builder_with_http(Box::new(client.clone()));
        let account = builder.from_parts(id.clone(), key.key.clone_key(), request.authority.to_owned()).await;
        let account = account.map_err(|error| context.error(error))?;
        let mut order = context.begin(&account, request).await?;
        context.prove(&mut order, request, responder).await?;
        context.finish(&mut order, request).await
    };
    let mut ordered = attempt().await;
    for _ in 1..ORDERS {
        if ordered.as_ref().is_err_and(|error| error.failure == Failure::Nonce) {
            ordered = attempt().await;
        }
    }
    let (account, issuer) = known.clone();
    match ordered {
        Ok(pair) => {
            Ok(Finished { authority: request.authority.to_owned(), pem: pair.pem(), account, issuer })
        }
        Err(error) => Err(OrderError { account: Some(known), ..error }),
    }
}

fn is_bad_nonce(error: &Error) -> bool {
    matches!(error, Error::Api(problem) if problem.r#type.as_deref() == Some(BAD_NONCE))
}

impl Context {
    fn failed(&self, why: String) -> OrderError {
        match self.client.retry_after().take() {
            Some(until) => OrderError::new(Failure::RateLimited(seconds(until)), why),
            None => OrderError::of_authority(why),
        }
    }

    fn error(&self, error: Error) -> OrderError {
        let is_limit = |kind: &Option<String>| kind.as_deref() == Some(RATE_LIMITED);
        let retry_after = self.client.retry_after().take();
        match (&error, retry_after) {
            (Error::Api(problem), Some(until)) if is_limit(&problem.r#type) => {
                OrderError::new(Failure::RateLimited(seconds(until)), error.to_string())
            }
            (error, _) if is_bad_nonce(error) => OrderError::new(Failure::Nonce, error.to_string()),
            _ => OrderError::of_authority(error.to_string()),
        }
    }

    async fn begin(&self, account: &Account, request: &Request<'_>) -> Result<Order, OrderError> {
        let identifier = |name: &String| match name.parse::<IpAddr>() {
            Ok(address) => Identifier::Ip(address),
            Err(_) => Identifier::Dns(name.to_ascii_lowercase()),
        };
        let identifiers: Vec<Identifier> = request.names.iter().map(identifier).collect();
        let new = || {
            let new = NewOrder::new(&identifiers);
            match &self.settings.profile {
                Some(profile) => new.profile(profile),
                None => new,
            }
        };
        if let Some((key, serial)) = request.replaces.and_then(|id| id.split_once('.')) {
            let replaced =
                CertificateIdentifier { authority_key_identifier: key.into(), serial: serial.into() };
            match account.new_order(&new().replaces(replaced)).await {
                Ok(order) => return Ok(order),
                Err(Error::Api(problem)) if problem.r#type.as_deref() != Some(ALREADY_REPLACED) => {
                    return Err(self.error(Error::Api(problem)));
                }
                // The authority does not support it, or another order has replaced the certificate.
                Err(_) => {}
            }
        }
        account.new_order(&new()).await.map_err(|error| self.error(error))
    }

    /// Passes the challenges of all names, and takes back what was set up for them, whether they have been passed or
    /// not.
    async fn prove(
        &self,
        order: &mut Order,
        request: &Request<'_>,
        responder: &impl Responder,
    ) -> Result<(), OrderError> {
        let mut answers = Vec::new();
        let set_up = self.set_up(order, request.challenge, responder, &mut answers).await;
        let proved = match set_up {
            Ok(()) => self.await_validation(order, request.challenge).await,
            Err(error) => Err(error),
        };
        for answer in answers {
            match answer {
                Answer::Permanent => {}
                Answer::Certificate(name) => responder.withdraw(&name).await,
                Answer::Record(record) => {
                    // A record that stays does no harm, but to the list of records.
                    if let Err(why) = dns::run(&self.settings, Change::Unset, &record).await {
                        log::warn(format_args!("the record {} stays: {why}", record.name));
                    }
                }
            }
        }
        proved
    }

    async fn set_up(
        &self,
        order: &mut Order,
        challenge: Challenge,
        responder: &impl Responder,
        answers: &mut Vec<Answer>,
    ) -> Result<(), OrderError> {
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
            let name = offered.identifier().to_string();
            let proof = offered.key_authorization();
            let here = |why: String| OrderError::new(Failure::Challenge, why);
            let answer = match challenge {
                Challenge::Http | Challenge::DnsPersist => Answer::Permanent,
                Challenge::TlsAlpn => {
                    let digest = super::crypto::sha256(proof.as_str().as_bytes());
                    let pair = issue::challenge(&name, &digest).map_err(here)?;
                    answers.push(Answer::Certificate(name.clone()));
                    responder.respond(&name, &pair).await.map_err(here)?;
                    continue;
                }
                Challenge::Dns => {
                    let record = Record::of_challenge(&name, proof.dns_value());
                    dns::run(&self.settings, Change::Set, &record).await.map_err(here)?;
                    Answer::Record(record)
                }
            };
            answers.push(answer);
        }
        if challenge == Challenge::Dns && !answers.is_empty() {
            tokio::time::sleep(self.settings.dns_wait).await;
        }
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(|error| self.error(error))?;
            if authorization.status == AuthorizationStatus::Pending
                && let Some(mut offered) = authorization.challenge(kind(challenge))
            {
                offered.set_ready().await.map_err(|error| self.error(error))?;
            }
        }
        Ok(())
    }

    async fn await_validation(&self, order: &mut Order, challenge: Challenge) -> Result<(), OrderError> {
        match order.poll_ready(&self.policy()).await {
            Ok(OrderStatus::Ready | OrderStatus::Valid) => Ok(()),
            Err(Error::Timeout(_)) => {
                let text =
                    format!("the authority has not decided in time on the challenge {}", challenge.name());
                Err(OrderError::new(Failure::Challenge, text))
            }
            Err(error) if is_bad_nonce(&error) => Err(self.error(error)),
            Ok(_) | Err(Error::Api(_)) => {
                let reasons = self.reasons(order).await;
                let text = format!("the challenge {} has failed: {reasons}", challenge.name());
                Err(OrderError::new(Failure::Challenge, text))
            }
            Err(error) => Err(self.error(error)),
        }
    }

    /// Why challenges have failed, by name.
    async fn reasons(&self, order: &mut Order) -> String {
        let mut reasons = Vec::new();
        let mut authorizations = order.authorizations();
        while let Some(Ok(mut authorization)) = authorizations.next().await {
            if authorization.refresh().await.is_err() {
                continue;
            }
            let name = authorization.identifier().to_string();
            let errors = authorization.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
            reasons.extend(
                errors.map(|error| format!("{name}: {}", error.detail.as_deref().unwrap_or("no reason"))),
            );
        }
        if reasons.is_empty() { "the authority gives no reason".to_owned() } else { reasons.join("; ") }
    }

    async fn finish(&self, order: &mut Order, request: &Request<'_>) -> Result<Pair, OrderError> {
        let here = |why: String| OrderError::new(Failure::Here, why);
        let names: Vec<String> = request.names.iter().map(|name| name.to_ascii_lowercase()).collect();
        let (signing_request, key) = issue::request(&names, self.settings.key).map_err(here)?;
        order.finalize_csr(&signing_request).await.map_err(|error| self.error(error))?;
        let chain = order.poll_certificate(&self.policy()).await.map_err(|error| self.error(error))?;
        let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|_| OrderError::of_authority("it sent no certificate".to_owned()))?;
        Ok(Pair { chain, key })
    }

    fn policy(&self) -> RetryPolicy {
        RetryPolicy::new().initial_delay(FIRST_DELAY).backoff(1.5).timeout(self.settings.order_timeout)
    }
}

fn kind(challenge: Challenge) -> ChallengeType {
    match challenge {
        Challenge::TlsAlpn => ChallengeType::TlsAlpn01,
        Challenge::Http => ChallengeType::Http01,
        Challenge::Dns => ChallengeType::Dns01,
        Challenge::DnsPersist => ChallengeType::Unknown(challenge.name().to_owned()),
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

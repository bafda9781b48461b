//! What every worker thread shares, and running commands so that a lost connection never cancels one.

use std::future::Future;
use std::num::NonZeroU32;
use std::sync::Arc;

use pix_domain::callbacks::CallbackService;
use pix_domain::charges::service::ChargeService;
use pix_domain::credentials::service::Authenticator;
use pix_domain::credentials::store::IntegratorStore;
use pix_domain::ids::Ids;
use pix_domain::postbacks::service::PostbackService;
use pix_domain::refunds::service::RefundService;
use pix_domain::splits::service::SplitService;
use pix_domain::time::Clock;
use pix_domain::transactions::TransactionService;
use pix_domain::wallet::statement::StatementService;
use pix_domain::wallet::store::WalletStore;
use pix_domain::withdrawals::service::WithdrawalService;
use tracing::Instrument;

use crate::callbacks::Door;
use crate::config::{ConfigError, HttpConfig};
use crate::error::ApiError;
use crate::limits::{Limits, Shared};
use crate::meters;
use crate::overload::{self, Places};
use crate::pay::Pay;
use crate::trials::Trials;

/// The use cases behind the interface.
#[derive(Clone)]
pub struct Services {
    /// Who calls.
    pub authenticator: Authenticator,
    /// Charges.
    pub charges: ChargeService,
    /// Withdrawals.
    pub withdrawals: WithdrawalService,
    /// Refunds.
    pub refunds: RefundService,
    /// Parts of others' charges.
    pub splits: SplitService,
    /// Any of them, by whatever names it.
    pub transactions: TransactionService,
    /// What the provider calls back.
    pub callbacks: CallbackService,
    /// What integrators are told, and where that stands.
    pub postbacks: PostbackService,
    /// Where integrators are told of splits.
    pub integrators: Arc<dyn IntegratorStore>,
    /// Balances.
    pub wallets: Arc<dyn WalletStore>,
    /// Books.
    pub statement: StatementService,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Request ids.
    pub ids: Arc<dyn Ids>,
    /// Where commands run: a runtime that outlives every connection.
    pub runtime: tokio::runtime::Handle,
}

/// What every worker thread shares.
pub(crate) struct State {
    pub(crate) config: HttpConfig,
    pub(crate) services: Services,
    pub(crate) limits: Limits,
    pub(crate) places: Places,
    pub(crate) callbacks: Door,
    pub(crate) trials: Trials,
    pub(crate) pay: Pay,
}

impl State {
    pub(crate) async fn new(config: HttpConfig, services: Services) -> Result<Self, ConfigError> {
        config.check()?;
        let shared = match &config.rate_store {
            Some(store) => Some(Shared::start(store, &services.runtime).await?),
            None => None,
        };
        let limits = Limits::new(&config, &services.authenticator, shared)?;
        meters::describe();
        let places = Places::new(&config);
        let per_second = NonZeroU32::new(config.callbacks_per_second).unwrap_or(NonZeroU32::MIN);
        let callbacks = Door::new(per_second);
        let pay = Pay::new(config.pay_streams);
        Ok(Self { config, services, limits, places, callbacks, trials: Trials::default(), pay })
    }

    /// Runs `work` in a task of its own and waits for it. A connection that is reset drops the future of its request,
    /// and with it whatever that was doing; the task goes on, in the place of that request.
    pub(crate) async fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ApiError> {
        let place = overload::place();
        let work = pix_traces::carried(async move {
            let _place = place;
            work.await
        });
        let task = self.services.runtime.spawn(work.instrument(tracing::Span::current()));
        task.await.map_err(|error| {
            tracing::error!(panicked = error.is_panic(), "a command did not come to its end");
            ApiError::internal()
        })
    }

    /// [`Self::spawn`] for what can fail.
    pub(crate) async fn run<T: Send + 'static, E: Into<ApiError> + Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.spawn(work).await?.map_err(Into::into)
    }
}

//! The OpenZiti overlay (W-209, W-211, S-830..S-833).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use runner_overlay::{CHECK_FAILURES, CHECK_INTERVAL, Options, Overlay};
pub use runner_overlay::{Identity, Monitor};

use super::{Connection, Listener, Peer, Via};

/// For the overlay to take its leave.
const CLOSE: Duration = Duration::from_secs(5);

/// An identity on the overlay. Connections live as long as it does.
pub struct Ziti(Overlay);

impl Ziti {
    /// Authenticate at the controller.
    pub async fn connect(identity: Identity) -> Result<Self, String> {
        match Overlay::connect(identity, Options::default()).await {
            Ok(overlay) => Ok(Self(overlay)),
            Err(error) => Err(format!("create ziti context: {error}")),
        }
    }

    /// Host a service. Clients can dial it a little later (S-831).
    pub async fn bind(&self, service: &str) -> Result<ZitiListener, String> {
        match self.0.bind(service).await {
            Ok(listener) => Ok(ZitiListener {
                listener,
                service: service.to_owned(),
            }),
            Err(error) => Err(format!("listen on ziti service {service}: {error}")),
        }
    }

    /// Ends when the identity is of no use any more, so that a restart enrols afresh (W-211).
    pub fn watch(&self) -> impl Future<Output = String> + Send + use<> {
        let watch = self.0.watch_identity(CHECK_INTERVAL, CHECK_FAILURES);
        async move { watch.await.to_string() }
    }

    /// Unbind, and end what is left.
    pub async fn close(self) {
        self.0.close(CLOSE).await;
    }
}

/// A bound service.
pub struct ZitiListener {
    listener: runner_overlay::Listener,
    service: String,
}

impl ZitiListener {
    /// Tells whether clients can dial, also after the listener went into a server.
    pub fn monitor(&self) -> Monitor {
        self.listener.monitor()
    }
}

impl Listener for ZitiListener {
    fn name(&self) -> &'static str {
        "ziti"
    }

    fn addr(&self) -> String {
        self.service.clone()
    }

    async fn accept(&mut self) -> io::Result<Connection> {
        let Some(connection) = self.listener.accept().await else {
            return Err(io::Error::other("the overlay closed"));
        };
        let dialler = connection.dialler();
        let names = [&dialler.identity_name, &dialler.identity_id, &dialler.caller];
        let name: Arc<str> = names
            .into_iter()
            .flatten()
            .next()
            .map_or("unknown", String::as_str)
            .into();
        tracing::info!(
            dialler = &*name,
            identity = dialler.identity_id,
            router = dialler.router,
            circuit = dialler.circuit,
            "dialled over the overlay"
        );
        Ok(Connection::new(connection, Peer { via: Via::Ziti, name }))
    }
}

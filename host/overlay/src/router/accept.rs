//! Dials: checked, answered at once, and handed to the listener (O-43..O-46, O-66).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc::error::TrySendError;

use super::{LISTENER, Link};
use crate::channel::codes::{content, header};
use crate::channel::frame::{Frame, Message};
use crate::conn::{Connection, Dialler};
use crate::crypto::{Opener, Sealer};

/// Sealer and opener of an encrypted connection, and the header to send first.
type Crypto = (Vec<u8>, Sealer, Opener);

impl Link {
    /// Accept or refuse; either way the router gets its answer now.
    pub(super) fn dial(&self, frame: &Frame) {
        if let Err(reason) = self.accept(frame) {
            self.terms.stats.refused.fetch_add(1, Ordering::Relaxed);
            tracing::info!(router = self.channel.router, reason, "overlay dial refused");
            let answer = Message::answer(content::DIAL_REFUSED, frame)
                .put(header::CONNECTION, &LISTENER.to_le_bytes())
                .body(reason);
            drop(self.channel.queue.urgent(answer));
        }
    }

    fn accept(&self, frame: &Frame) -> Result<(), String> {
        if frame.body.as_ref() != self.terms.bind_token.as_bytes() {
            return Err("invalid token".into());
        }
        if self.draining.is_cancelled() {
            return Err("the listener is closing".into());
        }
        let place = self.terms.accept.try_reserve().map_err(|error| match error {
            TrySendError::Full(()) => "the accept queue is full".to_owned(),
            TrySendError::Closed(()) => "the listener is closing".to_owned(),
        })?;
        let crypto = self.crypto(frame)?;
        let assigned = frame.headers.u32(header::ROUTER_ASSIGNS_ID);
        let id = assigned.unwrap_or_else(|| self.own_id());
        if id == LISTENER {
            return Err(format!("connection id {id} is the listener's"));
        }
        let inbox = self
            .channel
            .register(id, assigned.is_none())
            .ok_or_else(|| format!("connection id {id} is in use"))?;

        let answer = Message::answer(content::DIAL_ACCEPTED, frame)
            .put(header::CONNECTION, &LISTENER.to_le_bytes())
            .body(id.to_le_bytes());
        let answered = match assigned {
            Some(_) => self.channel.queue.urgent(answer).map(drop),
            None => self.channel.answer_to_be_confirmed(id, answer),
        };
        let dialler = self.dialler(frame, crypto.is_some());
        let (first, crypto) = crypto
            .map(|(header, sealer, opener)| (header, (sealer, opener)))
            .unzip();
        if let Some(header) = first {
            self.channel
                .queue
                .push(id, Message::about(content::DATA, id).body(header));
        }
        self.log(id, &dialler);
        let connection = Connection::new(id, Arc::clone(&self.channel), inbox, dialler, crypto);
        // on a lost channel the connection is dropped again here, and the answer goes nowhere
        answered.map_err(|e| e.to_string())?;
        self.terms.stats.accepted.fetch_add(1, Ordering::Relaxed);
        place.send(connection);
        Ok(())
    }

    fn crypto(&self, frame: &Frame) -> Result<Option<Crypto>, String> {
        let Some(keys) = &self.terms.keys else { return Ok(None) };
        if frame
            .headers
            .get(header::CRYPTO_METHOD)
            .is_some_and(|method| method.iter().any(|byte| *byte != 0))
        {
            return Err("unknown encryption method; expected 0".into());
        }
        let public = frame
            .headers
            .get(header::PUBLIC_KEY)
            .ok_or("the service requires encryption")?;
        keys.accept(public).map(Some).map_err(|e| e.to_string())
    }

    fn dialler(&self, frame: &Frame, encrypted: bool) -> Dialler {
        Dialler {
            identity_id: frame.headers.text(header::DIALLER_ID),
            identity_name: frame.headers.text(header::DIALLER_NAME),
            caller: frame.headers.text(header::CALLER),
            circuit: frame.headers.text(header::CIRCUIT),
            router: self.channel.router.clone(),
            encrypted,
        }
    }

    fn log(&self, id: u32, dialler: &Dialler) {
        tracing::info!(
            service = self.terms.service,
            router = dialler.router,
            circuit = dialler.circuit,
            dialler.id = dialler.identity_id,
            dialler.name = dialler.identity_name,
            caller = dialler.caller,
            encrypted = dialler.encrypted,
            connection = id,
            "overlay connection accepted"
        );
    }
}

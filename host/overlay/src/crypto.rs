//! End-to-end encryption: libsodium's `crypto_kx` and `crypto_secretstream_xchacha20poly1305` (O-60..O-66).
//!
//! The key exchange is computed here: the crate `crypto_kx` has its two directions swapped against libsodium (O-67).

use blake2::{Blake2b512, Digest as _};
use crypto_secretstream::aead::rand_core;
use crypto_secretstream::{Header, Key, PullStream, PushStream, Tag};
use rand::{RngCore as _, TryRngCore as _};
use x25519_dalek::{PublicKey, StaticSecret};

/// Bytes that encryption adds to a body.
pub(crate) const OVERHEAD: usize = 17;

/// Why a peer's key or message is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the public key of the other side must be 32 bytes and not of low order")]
    PublicKey,
    #[error("the first message of the other side must be the 24 bytes of the encryption header")]
    Header,
    #[error("a message cannot be decrypted")]
    Message,
    #[error("no randomness from the system")]
    Random,
}

/// The key pair of one listener, new at each start.
pub(crate) struct KeyPair {
    secret: StaticSecret,
    public: PublicKey,
}

impl KeyPair {
    pub(crate) fn generate() -> Result<Self, Failure> {
        let mut secret = [0; 32];
        rand::rngs::OsRng
            .try_fill_bytes(&mut secret)
            .map_err(|_| Failure::Random)?;
        Ok(Self::from_secret(secret))
    }

    fn from_secret(secret: [u8; 32]) -> Self {
        let secret = StaticSecret::from(secret);
        Self {
            public: PublicKey::from(&secret),
            secret,
        }
    }

    pub(crate) fn public(&self) -> &[u8; 32] {
        self.public.as_bytes()
    }

    /// Both directions of a connection whose dialler showed `dialler`, and the header to send first.
    pub(crate) fn accept(&self, dialler: &[u8]) -> Result<(Vec<u8>, Sealer, Opener), Failure> {
        let keys = self.listener_keys(dialler)?;
        let (header, sealer) = PushStream::init(Random, &keys.transmit);
        Ok((
            header.as_ref().to_vec(),
            Sealer(sealer),
            Opener::AwaitsHeader(keys.receive),
        ))
    }

    fn listener_keys(&self, dialler: &[u8]) -> Result<Keys, Failure> {
        let dialler: [u8; 32] = dialler.try_into().map_err(|_| Failure::PublicKey)?;
        let shared = self.secret.diffie_hellman(&PublicKey::from(dialler));
        if !shared.was_contributory() {
            return Err(Failure::PublicKey);
        }
        let digest = Blake2b512::new()
            .chain_update(shared.as_bytes())
            .chain_update(dialler)
            .chain_update(self.public())
            .finalize();
        let (transmit, receive) = digest.split_at(32);
        Ok(Keys {
            transmit: Key::try_from(transmit).map_err(|_| Failure::PublicKey)?,
            receive: Key::try_from(receive).map_err(|_| Failure::PublicKey)?,
        })
    }
}

struct Keys {
    transmit: Key,
    receive: Key,
}

/// Encrypts what this side sends; one call is one message.
pub(crate) struct Sealer(PushStream);

impl Sealer {
    /// Encrypt in place; `body` should have room for [`OVERHEAD`] more bytes.
    pub(crate) fn seal(&mut self, body: &mut Vec<u8>) -> Result<(), Failure> {
        self.0.push(body, &[], Tag::Message).map_err(|_| Failure::Message)
    }
}

/// Decrypts what the other side sends, whose first message is its header.
pub(crate) enum Opener {
    AwaitsHeader(Key),
    Open(Box<PullStream>),
}

impl Opener {
    /// Decrypt one message in place. The header gives an empty one.
    pub(crate) fn open(&mut self, body: &mut Vec<u8>) -> Result<(), Failure> {
        match self {
            Self::AwaitsHeader(key) => {
                let header = Header::try_from(body.as_slice()).map_err(|_| Failure::Header)?;
                *self = Self::Open(Box::new(PullStream::init(header, key)));
                body.clear();
                Ok(())
            }
            Self::Open(stream) => stream.pull(body, &[]).map(|_| ()).map_err(|_| Failure::Message),
        }
    }
}

/// Randomness in the traits of the version that `crypto_secretstream` asks for.
struct Random;

impl rand_core::RngCore for Random {
    fn next_u32(&mut self) -> u32 {
        rand::rng().next_u32()
    }

    fn next_u64(&mut self) -> u64 {
        rand::rng().next_u64()
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        rand::rng().fill_bytes(bytes);
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rand_core::Error> {
        self.fill_bytes(bytes);
        Ok(())
    }
}

/// `rand::rng` is one.
impl rand_core::CryptoRng for Random {}

#[cfg(test)]
mod tests;

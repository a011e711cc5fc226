use blake2::Blake2b;
use blake2::digest::consts::U32;

use super::*;

/// The dialler's half, as libsodium's `crypto_kx_client_session_keys` has it.
struct DiallerSide {
    pair: KeyPair,
}

impl DiallerSide {
    fn keys(&self, listener: &[u8; 32]) -> Keys {
        let shared = self.pair.secret.diffie_hellman(&PublicKey::from(*listener));
        let digest = Blake2b512::new()
            .chain_update(shared.as_bytes())
            .chain_update(self.pair.public())
            .chain_update(listener)
            .finalize();
        let (receive, transmit) = digest.split_at(32);
        Keys {
            transmit: transmit.try_into().unwrap(),
            receive: receive.try_into().unwrap(),
        }
    }
}

/// Both pairs of the known answer (O-61).
fn known() -> (DiallerSide, KeyPair) {
    let mut seed: Vec<u8> = (0..32).collect();
    let pair = |seed: &[u8]| KeyPair::from_secret(Blake2b::<U32>::digest(seed).into());
    let dialler = DiallerSide { pair: pair(&seed) };
    seed[0] = 1;
    (dialler, pair(&seed))
}

#[test]
fn keys_are_those_of_the_known_answer_o_61() {
    let (dialler, listener) = known();
    let keys = listener.listener_keys(dialler.pair.public()).unwrap();
    let receive = "749519c68059bce69f7cfcc7b387a3de1a1e8237d110991323bf62870115731a";
    let transmit = "62c8f4fa81800abd0577d99918d129b65deb789af8c8351f391feb0cbf238604";
    assert_eq!(
        hex::encode(keys.transmit.as_ref()),
        receive,
        "what the listener sends with, the dialler receives with"
    );
    assert_eq!(hex::encode(keys.receive.as_ref()), transmit);
}

#[test]
fn messages_pass_in_both_directions_o_62() {
    let (dialler, listener) = known();
    let (header, mut sealer, mut opener) = listener.accept(dialler.pair.public()).unwrap();
    assert_eq!(header.len(), 24);
    let keys = dialler.keys(listener.public());
    let mut dialler_opener = Opener::AwaitsHeader(keys.receive);
    let mut first = header;
    dialler_opener.open(&mut first).unwrap();
    assert!(first.is_empty());
    for length in [0, 1, 15, 16, 17, 4096, 32 * 1024] {
        let plain: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
        let mut body = plain.clone();
        sealer.seal(&mut body).unwrap();
        assert_eq!(body.len(), length + OVERHEAD);
        dialler_opener.open(&mut body).unwrap();
        assert_eq!(body, plain);
    }
    let (their_header, their_sealer) = PushStream::init(Random, &keys.transmit);
    opener.open(&mut their_header.as_ref().to_vec()).unwrap();
    let mut body = b"to the host".to_vec();
    Sealer(their_sealer).seal(&mut body).unwrap();
    opener.open(&mut body).unwrap();
    assert_eq!(body, b"to the host");
}

#[test]
fn bad_peers_are_refused_o_60_o_63_o_65() {
    let (dialler, listener) = known();
    for (name, public) in [
        ("zero", vec![0; 32]),
        ("short", vec![9; 31]),
        ("long", vec![9; 33]),
        ("none", vec![]),
    ] {
        assert_eq!(listener.accept(&public).err(), Some(Failure::PublicKey), "{name}");
    }
    let (_, _, mut opener) = listener.accept(dialler.pair.public()).unwrap();
    assert_eq!(opener.open(&mut vec![1; 23]), Err(Failure::Header));
    let keys = dialler.keys(listener.public());
    let (header, sealer) = PushStream::init(Random, &keys.transmit);
    opener.open(&mut header.as_ref().to_vec()).unwrap();
    let mut body = b"changed on the way".to_vec();
    Sealer(sealer).seal(&mut body).unwrap();
    body[3] ^= 1;
    assert_eq!(opener.open(&mut body), Err(Failure::Message));
    assert_eq!(opener.open(&mut vec![0; 3]), Err(Failure::Message));
}

use super::*;

fn start(argv: &[&str], shell: &str, options: Option<ExecOptions>) -> ExecStartRequest {
    ExecStartRequest {
        target_id: "p".to_owned(),
        command_argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        command_shell: shell.to_owned(),
        options,
        ..ExecStartRequest::default()
    }
}

fn env(pairs: &[(&str, &str)]) -> Vec<EnvVar> {
    pairs
        .iter()
        .map(|(name, value)| EnvVar {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
        })
        .collect()
}

fn words(start: &ExecStartRequest, mark: Option<&str>) -> Vec<String> {
    check(start).unwrap().0.words(mark)
}

#[test]
fn refusals() {
    let with = |name: &str, value: &str, tty| {
        let env = env(&[(name, value)]);
        start(
            &["a"],
            "",
            Some(ExecOptions {
                env,
                tty,
                ..ExecOptions::default()
            }),
        )
    };
    let with_env = |name| with(name, "v", false);
    let many = ExecOptions {
        env: env(&[("A", "v".repeat(100_000).as_str()); 6]),
        ..ExecOptions::default()
    };
    let blank = ExecStartRequest {
        target_id: " ".to_owned(),
        ..start(&[], "", None)
    };
    for (request, code, message) in [
        (blank, "target_id_required", "target_id required"),
        (start(&[], " \n", None), "invalid_command", "command required"),
        (
            start(&["a"], "b", None),
            "invalid_command",
            "command_argv and command_shell are mutually exclusive",
        ),
        (with_env("  "), "invalid_command", "env name required"),
        (with_env("1A"), "invalid_command", "invalid env name: "),
        (
            start(&[&"/".repeat(30_000)], "", None),
            "invalid_command",
            "command and environment are too large: ",
        ),
        (
            with("A", &"v".repeat(60_000), true),
            "invalid_command",
            "command and environment are too large: ",
        ),
        (
            with("A", &"v".repeat(131_070), false),
            "invalid_command",
            "env value too large: A takes 131072 bytes, at most 131071",
        ),
        (
            with("A", "v\0", false),
            "invalid_command",
            "env value of A holds a zero byte",
        ),
        (
            start(&["a"], "", Some(many)),
            "invalid_command",
            "environment is too large: ",
        ),
    ] {
        let Invalid(got, text) = check(&request).unwrap_err();
        assert_eq!(got, code);
        assert!(
            text.starts_with(message) && (text == message || message.ends_with(": ")),
            "{text}"
        );
    }
}

/// S-621 to S-624
#[test]
fn commands() {
    assert_eq!(words(&start(&["a", "", " b "], " ", None), None), ["a", "", " b "]);
    assert_eq!(
        words(&start(&[], "  echo $X ", None), None),
        ["/bin/sh", "-c", "echo $X"]
    );
    let options = ExecOptions {
        workdir: " /w d".to_owned(),
        env: env(&[(" A ", " 1 "), ("B", "x=y"), ("A", "2")]),
        ..ExecOptions::default()
    };
    let both = start(&["a", "b"], "", Some(options));
    let tail = [
        "A= 1 ",
        "B=x=y",
        "A=2",
        "/bin/sh",
        "-c",
        IN_DIRECTORY,
        "--",
        " /w d",
        "a",
        "b",
    ];
    let reader = ["/bin/sh", "-c", READ_ENV, "sh"];
    let (assignments, command) = tail.split_at(3);
    assert_eq!(words(&both, None), [&reader, command].concat());
    assert_eq!(
        words(&both, Some("M=1")),
        [&["env", "M=1"], &reader[..], command].concat()
    );
    let prelude = check(&both).unwrap().0.prelude().unwrap();
    assert_eq!(prelude, ".A=2\n.B=x=y\n.A= 1 \n\n");
    // on a terminal
    let mut both = both;
    both.options.as_mut().unwrap().tty = true;
    assert_eq!(
        words(&both, Some("M=1")),
        [&["env", "M=1"], assignments, command].concat()
    );
    assert_eq!(check(&both).unwrap().0.prelude(), None);
    assert_eq!(words(&start(&["a"], "", None), Some("M=1")), ["env", "M=1", "a"]);
    assert_eq!(words(&start(&["a=b"], "", None), Some("M=1")), ["a=b"]);
}

#[test]
fn options() {
    let parse = |options| check(&start(&["a"], "", options)).unwrap().1;
    let absent = parse(None);
    assert!(absent.separate_stderr && absent.tail == 65_536 && absent.timeout.is_none());
    assert!(!parse(Some(ExecOptions::default())).separate_stderr);
    for (wish, tail) in [
        (0, 65_536),
        (1, 1),
        (262_144, 262_144),
        (262_145, 262_144),
        (u64::MAX, 262_144),
    ] {
        assert_eq!(
            parse(Some(ExecOptions {
                exit_tail_bytes: wish,
                ..ExecOptions::default()
            }))
            .tail,
            tail
        );
    }
    let longest = parse(Some(ExecOptions {
        timeout_ms: u64::MAX,
        ..ExecOptions::default()
    }));
    assert_eq!(longest.timeout, Some(Duration::from_millis(u64::MAX)));
}

#[test]
fn env_that_cannot_run_it() {
    let (command, _) = check(&start(&["nope", "x"], "", None)).unwrap();
    assert!(command.not_started(127, "env: \u{2018}nope\u{2019}: No such file or directory\n".as_bytes()));
    assert!(command.not_started(127, b"env: can't execute 'nope': No such file or directory\r\n"));
    assert!(!command.not_started(1, b"env: nope\n"));
    assert!(!command.not_started(127, b"sh: nope: not found\n"));
    assert!(!command.not_started(127, b"env: nope\nmore\n"));
}

/// S-625: what a name may be, with the reason why not.
#[test]
fn env_names() {
    let names = |name: &str| {
        let options = ExecOptions {
            env: env(&[(name, "")]),
            ..ExecOptions::default()
        };
        check(&start(&["a"], "", Some(options))).map(|_| ())
    };
    for name in ["A", "_", "a1", "A-B", "a.b", " A ", "-x", ".x"] {
        assert_eq!(names(name), Ok(()), "{name:?}");
    }
    for name in ["1A", ".", "..", "..a", "a b", "a=b", "\u{e9}", "a/b"] {
        let Invalid(code, text) = names(name).unwrap_err();
        assert_eq!(code, "invalid_command", "{name:?}");
        assert!(text.starts_with("invalid env name: ") && text.len() > 25, "{text}");
    }
}

/// G-09: what the reader makes of the prelude, in each shell at hand: order, values of any text, and not one byte of the
/// client's input.
#[test]
fn environment_from_standard_input() {
    use std::io::Write as _;
    use std::process::{Command as Process, Stdio};
    let pairs = [
        ("A", "first"),
        ("LINES", "one\ntwo\n\n+three\n.four"),
        ("EMPTY", ""),
        ("BREAK", "\n"),
        ("ODD", " \\n $A `x` '\"\t* =; "),
        ("dotted-name.x", "1"),
        ("-x", "no option"),
        ("A", "last"),
        ("UTF", "\u{e9}\u{1f600}"),
    ];
    let options = ExecOptions {
        env: env(&pairs),
        ..ExecOptions::default()
    };
    let command = |argv: &[&str]| check(&start(argv, "", Some(options.clone()))).unwrap().0;
    let run = |shell: &[&str], command: &Command| {
        let child = Process::new(shell[0])
            .args(&shell[1..])
            .args(&command.words(None)[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.ok()?;
        let mut input = child.stdin.take().unwrap();
        input.write_all(&command.prelude().unwrap()).unwrap();
        input.write_all(b"\n.X=1\nrest").unwrap();
        drop(input);
        Some(child.wait_with_output().unwrap().stdout)
    };
    for shell in [&["/bin/sh"][..], &["dash"], &["bash"], &["busybox", "sh"]] {
        let Some(rest) = run(shell, &command(&["cat"])) else {
            continue;
        };
        assert_eq!(rest, b"\n.X=1\nrest", "{shell:?}");
        // not by a shell, which drops names that are none of its own
        let said = run(shell, &command(&["env", "-0"])).unwrap();
        let variables: Vec<_> = said.split(|byte| *byte == 0).collect();
        for (name, value) in &pairs[1..] {
            let wanted = format!("{name}={value}");
            assert!(
                variables.contains(&wanted.as_bytes()),
                "{shell:?}: {wanted:?} is not in {variables:?}"
            );
        }
        assert!(
            !variables
                .iter()
                .any(|variable| variable.starts_with(b"_runner") || *variable == b"A=first")
        );
    }
}

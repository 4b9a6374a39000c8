//! Several hosts, each a launcher on this machine: training, failures, shared directories.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cases::{Place, mesh};
use crate::faults::losses;
use crate::processes::{
    KEY, WORKER, alone, lines, place, ranks, signal, text, wait_for_checkpoint, wait_until, worker, write,
};

/// Starts two launchers on this machine as two hosts; 127.0.0.1 is the name of the first.
pub(crate) fn two_hosts(path: &str, port: u16) -> [Child; 2] {
    hosts(&["launch", path], port, [Path::new("."); 2], &[]).map(|mut host| host.spawn().unwrap())
}

/// Creates launchers in separate directories, so that relative paths in the config differ.
pub(crate) fn hosts(
    arguments: &[&str],
    port: u16,
    at: [&Path; 2],
    variables: &[(&str, &str)],
) -> [Command; 2] {
    [0, 1].map(|host| {
        let mut command = Command::new(WORKER);
        command
            .args(arguments)
            .current_dir(at[host])
            .envs(variables.iter().copied())
            .envs([("RANK", (2 * host).to_string()), ("MASTER_PORT", port.to_string())])
            .envs([
                ("WORLD_SIZE", "4"),
                ("LOCAL_RANK", "0"),
                ("LOCAL_WORLD_SIZE", "2"),
                ("MASTER_ADDR", "127.0.0.1"),
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    })
}

/// Returns a port for the test alone: as long as one of its connections exists the kernel gives it to nobody, and a
/// listener may reuse it.
pub(crate) fn free_port() -> u16 {
    static HELD: Mutex<Vec<[TcpStream; 2]>> = Mutex::new(Vec::new());
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let held = [TcpStream::connect(address).unwrap(), listener.accept().unwrap().0];
    HELD.lock().unwrap_or_else(PoisonError::into_inner).push(held);
    address.port()
}

#[test]
fn two_hosts_train_as_one() {
    let _alone = alone();
    let (place, config) = place("hosts");
    let base = mesh(config, 4, 1, 1);
    let whole = losses(&lines(&worker(&["launch", &write(&place, &base)])));
    // A shard group that spans both hosts, and a replica on each.
    for (shards, replicas) in [(4, 1), (2, 2)] {
        let mut config = mesh(base.clone(), shards, replicas, 1);
        config["cluster"]["nodes"] = json!(2);
        let path = write(&place, &config);
        let alone = worker(&["launch", &path]);
        assert_eq!(alone.status.code(), Some(3));
        assert!(
            text(&alone.stderr)
                .contains("planned for 2 hosts, found nothing in the environment to locate them")
        );
        let [first, second] = two_hosts(&path, free_port()).map(|h| h.wait_with_output().unwrap());
        assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
        assert_eq!(second.status.code(), Some(0), "{}", text(&second.stderr));
        assert_eq!(losses(&lines(&first)), whole, "{shards} x {replicas}: the same bits as on one host");
        assert_eq!(text(&second.stdout), "");
    }
}

#[test]
fn a_dead_host_ends_the_others() {
    let _alone = alone();
    let (place, config) = place("host-goes");
    let mut config = mesh(config, 4, 1, 1);
    config["cluster"]["nodes"] = json!(2);
    config["schedule"]["steps"] = json!(1_000_000);
    config["checkpoint"]["every_steps"] = json!(20);
    config["communication"]["peer_dead_seconds"] = json!(3.0);
    let path = write(&place, &config);
    // Kills a rank of the other host; then the whole host.
    for whole_host in [false, true] {
        let _ = std::fs::remove_dir_all(place.at("checkpoints"));
        let [mut first, second] = two_hosts(&path, free_port());
        wait_for_checkpoint(&mut first, &place.at("checkpoints"));
        let victims = ranks(&second);
        signal(if whole_host { second.id() } else { victims[1] }, "-KILL");
        let first = first.wait_with_output().unwrap();
        assert_eq!(first.status.code(), Some(13), "{}", text(&first.stderr));
        let reason = text(&first.stderr);
        let said = if whole_host { "host 1 (ranks from 2)" } else { "rank 3 was killed by signal 9" };
        assert!(reason.lines().last().unwrap().contains(said), "{reason}");
        assert_ne!(second.wait_with_output().unwrap().status.code(), Some(0));
    }
}

#[test]
fn a_hung_rank_ends_all_hosts() {
    let _alone = alone();
    let (place, config) = place("host-stands");
    let mut config = mesh(config, 4, 1, 1);
    config["cluster"]["nodes"] = json!(2);
    config["schedule"]["steps"] = json!(1_000_000);
    config["checkpoint"]["every_steps"] = json!(20);
    config["communication"]["peer_dead_seconds"] = json!(3.0);
    let [mut first, second] = two_hosts(&write(&place, &config), free_port());
    wait_for_checkpoint(&mut first, &place.at("checkpoints"));
    let stopped = ranks(&second)[1];
    signal(stopped, "-STOP");
    let both = [first, second].map(|host| host.wait_with_output().unwrap());
    for host in both {
        let errors = text(&host.stderr);
        assert_eq!(host.status.code(), Some(13), "{errors}");
        assert!(errors.lines().last().unwrap().contains("rank 3 sent no heartbeat for 3 s"), "{errors}");
    }
    assert!(!Path::new(&format!("/proc/{stopped}/exe")).exists(), "it is gone");
}

/// Three hosts of one rank each; a host that is frozen as a whole ends the others.
#[test]
fn three_hosts_train_and_notice_a_frozen_one() {
    use std::os::unix::process::CommandExt as _;
    let _alone = alone();
    let (place, config) = place("three");
    let mut config = mesh(config, 1, 3, 1);
    config["batch"] = json!({"micro": 2, "accumulation": 1, "global_sequences": 6});
    config["cluster"]["nodes"] = json!(3);
    config["checkpoint"]["every_steps"] = json!(20);
    config["communication"]["peer_dead_seconds"] = json!(3.0);
    let launch = |config: &Value| {
        let (path, port) = (write(&place, config), free_port().to_string());
        [0, 1, 2].map(|host: usize| {
            let mut command = Command::new(WORKER);
            let rank = host.to_string();
            command.args(["launch", &path]).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.envs([("RANK", rank.as_str()), ("WORLD_SIZE", "3"), ("LOCAL_RANK", "0")]);
            command.envs([("LOCAL_WORLD_SIZE", "1"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", &port)]);
            command.process_group(0).spawn().unwrap()
        })
    };
    let mut alone_config = config.clone();
    alone_config["cluster"]["nodes"] = json!(1);
    let whole = losses(&lines(&worker(&["launch", &write(&place, &alone_config)])));
    let [first, second, third] = launch(&config).map(|host| host.wait_with_output().unwrap());
    for host in [&first, &second, &third] {
        assert_eq!(host.status.code(), Some(0), "{}", text(&host.stderr));
    }
    assert_eq!(losses(&lines(&first)), whole, "the same bits as on one host");
    std::fs::remove_dir_all(place.at("checkpoints")).unwrap();
    config["schedule"]["steps"] = json!(1_000_000);
    let [mut first, mut second, third] = launch(&config);
    wait_for_checkpoint(&mut first, &place.at("checkpoints"));
    let group = format!("-{}", second.id());
    let send =
        |name: &str| assert!(Command::new("kill").args([name, "--", &group]).status().unwrap().success());
    send("-STOP");
    for host in [first, third] {
        let output = host.wait_with_output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(13), "{errors}");
        assert!(
            errors.contains("host 1 (ranks from 1)") || errors.contains("rank 1 sent no heartbeat"),
            "{errors}"
        );
    }
    send("-KILL");
    second.wait().unwrap();
}

fn ended([first, second]: [Command; 2]) -> [Output; 2] {
    let running = [first, second].map(|mut host| host.spawn().unwrap());
    running.map(|host| host.wait_with_output().unwrap())
}

/// Prepares a directory for each of two hosts, and a config with checkpoints in them.
fn apart(place: &Place, shards: usize, replicas: usize, config: &Value) -> (String, [std::path::PathBuf; 2]) {
    let mut config = mesh(config.clone(), shards, replicas, 1);
    config["cluster"]["nodes"] = json!(2);
    config["checkpoint"]["directory"] = json!("checkpoints");
    let homes = ["one", "two"].map(|name| place.0.join(name));
    for home in &homes {
        std::fs::create_dir_all(home).unwrap();
    }
    (write(place, &config), homes)
}

#[test]
fn shard_groups_across_hosts_require_a_shared_directory() {
    let _alone = alone();
    let (place, config) = place("apart");
    let (path, homes) = apart(&place, 4, 1, &config);
    for verb in ["preflight", "launch"] {
        let at = homes.each_ref().map(std::path::PathBuf::as_path);
        let [first, second] = ended(hosts(&[verb, &path], free_port(), at, &[]));
        let errors = text(&first.stderr);
        assert_eq!(first.status.code(), Some(11), "{verb}: {errors}");
        assert!(errors.contains("hosts do not share it, and a shard group spans 2 of them"), "{errors}");
        assert!(errors.contains("at most 2 shards"), "{errors}");
        assert!(!text(&first.stdout).contains("loss"), "nothing was trained");
        assert_ne!(second.status.code(), Some(0));
        assert_eq!(std::fs::read_dir(homes[0].join("checkpoints")).unwrap().count(), 0, "nothing is left");
    }
}

#[test]
fn replicas_without_a_shared_directory_resume_from_the_first_host() {
    let _alone = alone();
    let (place, mut config) = place("copies");
    let whole = losses(&lines(&worker(&["launch", &write(&place, &mesh(config.clone(), 2, 2, 1))])));
    config["checkpoint"]["every_steps"] = json!(4);
    config["checkpoint"]["resume"] = json!("auto");
    // 40 sequences are 5 steps: `epochs` ends the run early without changing the schedule.
    config["data"]["epochs"] = json!(1);
    let (path, homes) = apart(&place, 2, 2, &config);
    let at = homes.each_ref().map(std::path::PathBuf::as_path);
    let [first, second] = ended(hosts(&["launch", &path], free_port(), at, &[]));
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    assert_eq!(second.status.code(), Some(0), "{}", text(&second.stderr));
    let mut all = losses(&lines(&first));
    assert_eq!(all.len(), 5);
    assert!(trainc_worker::checkpoint::newest(&homes[0].join("checkpoints")).is_some());
    assert!(trainc_worker::checkpoint::newest(&homes[1].join("checkpoints")).is_none());
    config["data"]["epochs"] = json!(null);
    let (path, _) = apart(&place, 2, 2, &config);
    let [looked, _] = ended(hosts(&["preflight", &path], free_port(), at, &[]));
    let errors = text(&looked.stderr);
    assert_eq!(looked.status.code(), Some(0), "{errors}");
    assert!(errors.contains("warning: hosts do not share `checkpoint.directory`"), "{errors}");
    assert!(errors.contains("resume: from step 5"), "{errors}");
    let [first, second] = ended(hosts(&["launch", &path], free_port(), at, &[]));
    assert_eq!(second.status.code(), Some(0), "{}", text(&second.stderr));
    assert!(text(&first.stderr).contains("resumed at step 5"), "{}", text(&first.stderr));
    all.extend(losses(&lines(&first)));
    assert_eq!(all, whole);
}

#[test]
fn the_preflight_time_limit_starts_when_all_hosts_joined() {
    let _alone = alone();
    let (place, config) = place("minute");
    let mut config = mesh(config, 4, 1, 1);
    config["cluster"]["nodes"] = json!(2);
    let path = write(&place, &config);
    let here = [Path::new("."); 2];
    // Its ranks hang, once the other host has joined after the time limit.
    let hang = [("TRAINC_WORKER_MINUTE", "1"), ("TRAINC_WORKER_FAULT", "preflight")];
    let [mut first, mut second] = hosts(&["preflight", &path], free_port(), here, &hang);
    let mut first = first.spawn().unwrap();
    wait_until("the ranks of the first host", || ranks(&first).len() == 2);
    std::thread::sleep(Duration::from_secs(2));
    assert!(first.try_wait().unwrap().is_none(), "the first host waits for the second");
    let second = second.spawn().unwrap();
    let [first, second] = [first, second].map(|host| host.wait_with_output().unwrap());
    assert_eq!(first.status.code(), Some(13), "{}", text(&first.stderr));
    assert_eq!(second.status.code(), Some(13), "{}", text(&second.stderr));
    assert!(text(&first.stderr).contains("preflight took more than 1 s"), "{}", text(&first.stderr));
}

#[test]
fn hosts_with_different_configs_report_the_difference() {
    let _alone = alone();
    let (place, config) = place("differ");
    let mut config = mesh(config, 4, 1, 1);
    config["cluster"]["nodes"] = json!(2);
    // Longer than a test may take.
    config["communication"]["join_seconds"] = json!(3600.0);
    let homes = ["one", "two"].map(|name| place.0.join(name));
    for (home, rate) in homes.iter().zip([3e-3, 2e-3]) {
        std::fs::create_dir_all(home).unwrap();
        config["optimizer"]["learning_rate"] = json!(rate);
        config["output"]["failure"] = json!("failure");
        std::fs::write(home.join("worker.json"), config.to_string()).unwrap();
        std::fs::write(home.join("rendezvous.key"), KEY).unwrap();
    }
    let at = homes.each_ref().map(std::path::PathBuf::as_path);
    for verb in ["launch", "preflight"] {
        let both = ended(hosts(&[verb, "worker.json"], free_port(), at, &[]));
        for (host, home) in both.iter().zip(&homes) {
            let errors = text(&host.stderr);
            assert_eq!(host.status.code(), Some(3), "{errors}");
            let said = "host 1 has a different config or binary than the first host; these settings differ: \
                        `optimizer.learning_rate`";
            assert!(!errors.contains("0.00"), "no values: {errors}");
            assert!(errors.lines().last().unwrap().contains(said), "{errors}");
            assert!(std::fs::read_to_string(home.join("failure")).unwrap().contains(said));
        }
    }
}

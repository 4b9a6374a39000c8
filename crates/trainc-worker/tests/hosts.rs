//! Several hosts, each a launcher on this machine: what they train, what ends them, and what they share.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cases::{Place, mesh};
use crate::faults::losses;
use crate::processes::{
    WORKER, alone, lines, place, ranks, signal, text, wait_for_checkpoint, worker, write,
};

/// Two launchers on this machine as if each were a host: 127.0.0.1 is the first one's name.
fn two_hosts(path: &str, port: u16) -> [Child; 2] {
    hosts(&["launch", path], port, [Path::new("."); 2], &[]).map(|mut host| host.spawn().unwrap())
}

/// The same, each in a directory of its own, so that a path in the config can be another one on each.
fn hosts(arguments: &[&str], port: u16, at: [&Path; 2], variables: &[(&str, &str)]) -> [Command; 2] {
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

fn free_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

#[test]
fn two_hosts_train_as_one() {
    let _alone = alone();
    let (place, config) = place("hosts");
    let base = mesh(config, 4, 1, 1);
    let whole = losses(&lines(&worker(&["launch", &write(&place, &base)])));
    // A shard group that spans both, and a replica on each.
    for (shards, replicas) in [(4, 1), (2, 2)] {
        let mut config = mesh(base.clone(), shards, replicas, 1);
        config["cluster"]["nodes"] = json!(2);
        let path = write(&place, &config);
        let alone = worker(&["launch", &path]);
        assert_eq!(alone.status.code(), Some(3));
        assert!(
            text(&alone.stderr).contains("2 hosts are planned, and nothing in the environment names them")
        );
        let [first, second] = two_hosts(&path, free_port()).map(|h| h.wait_with_output().unwrap());
        assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
        assert_eq!(second.status.code(), Some(0), "{}", text(&second.stderr));
        assert_eq!(losses(&lines(&first)), whole, "{shards} x {replicas}: the same bits as on one host");
        assert_eq!(text(&second.stdout), "");
    }
}

#[test]
fn a_host_that_goes_ends_the_others() {
    let _alone = alone();
    let (place, config) = place("host-goes");
    let mut config = mesh(config, 4, 1, 1);
    config["cluster"]["nodes"] = json!(2);
    config["schedule"]["steps"] = json!(1_000_000);
    config["checkpoint"]["every_steps"] = json!(20);
    config["communication"]["peer_dead_seconds"] = json!(3.0);
    let path = write(&place, &config);
    // A rank of the other host is killed; then a whole host.
    for whole_host in [false, true] {
        let _ = std::fs::remove_dir_all(place.at("checkpoints"));
        let [mut first, second] = two_hosts(&path, free_port());
        wait_for_checkpoint(&mut first, &place.at("checkpoints"));
        let victims = ranks(&second);
        let began = Instant::now();
        signal(if whole_host { second.id() } else { victims[1] }, "-KILL");
        let first = first.wait_with_output().unwrap();
        assert!(began.elapsed() < Duration::from_secs(30));
        assert_eq!(first.status.code(), Some(13), "{}", text(&first.stderr));
        let reason = text(&first.stderr);
        let said = if whole_host { "host 1 (rank 2 and on)" } else { "rank 3 was killed by signal 9" };
        assert!(reason.lines().last().unwrap().contains(said), "{reason}");
        assert_ne!(second.wait_with_output().unwrap().status.code(), Some(0));
    }
}

#[test]
fn a_rank_that_stands_still_on_one_host_ends_the_others() {
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
    let began = Instant::now();
    signal(stopped, "-STOP");
    let both = [first, second].map(|host| host.wait_with_output().unwrap());
    // The ten seconds that the worker's README allows after `peer_dead_seconds`.
    assert!(began.elapsed() < Duration::from_secs(13), "{:?}", began.elapsed());
    for host in both {
        let errors = text(&host.stderr);
        assert_eq!(host.status.code(), Some(13), "{errors}");
        assert!(errors.lines().last().unwrap().contains("rank 3 gave no sign of life for 3 s"), "{errors}");
    }
    assert!(!Path::new(&format!("/proc/{stopped}/exe")).exists(), "it is gone");
}

fn ended([first, second]: [Command; 2]) -> [Output; 2] {
    let running = [first, second].map(|mut host| host.spawn().unwrap());
    running.map(|host| host.wait_with_output().unwrap())
}

/// Two hosts that have a directory each, and a config whose checkpoints go there.
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
fn shards_spread_over_hosts_without_a_shared_directory_are_refused() {
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
fn copies_on_hosts_without_a_shared_directory_go_on_from_the_first() {
    let _alone = alone();
    let (place, mut config) = place("copies");
    let whole = losses(&lines(&worker(&["launch", &write(&place, &mesh(config.clone(), 2, 2, 1))])));
    config["checkpoint"]["every_steps"] = json!(4);
    config["checkpoint"]["resume"] = json!("auto");
    // 40 sequences are 5 steps: `epochs` ends the run early, its schedule stays.
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
fn a_preflight_has_a_minute_from_when_all_hosts_are_there() {
    let _alone = alone();
    let (place, config) = place("minute");
    let mut config = mesh(config, 4, 1, 1);
    config["cluster"]["nodes"] = json!(2);
    let path = write(&place, &config);
    let here = [Path::new("."); 2];
    // A host that comes after the minute.
    let minute = [("TRAINC_WORKER_MINUTE", "12")];
    let [mut first, mut second] = hosts(&["preflight", &path], free_port(), here, &minute);
    let first = first.spawn().unwrap();
    std::thread::sleep(Duration::from_secs(13));
    let second = second.spawn().unwrap().wait_with_output().unwrap();
    let first = first.wait_with_output().unwrap();
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    assert_eq!(second.status.code(), Some(0), "{}", text(&second.stderr));
    // One that stands still: join_seconds, 60 here, do not count.
    let hang = [("TRAINC_WORKER_MINUTE", "2"), ("TRAINC_WORKER_FAULT", "preflight")];
    let began = Instant::now();
    let [first, _] = ended(hosts(&["preflight", &path], free_port(), here, &hang));
    assert_eq!(first.status.code(), Some(13), "{}", text(&first.stderr));
    assert!(text(&first.stderr).contains("preflight took more than 2 s"), "{}", text(&first.stderr));
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn hosts_with_other_configs_end_at_once_and_say_in_what() {
    let _alone = alone();
    let (place, config) = place("differ");
    let mut config = mesh(config, 4, 1, 1);
    config["cluster"]["nodes"] = json!(2);
    let homes = ["one", "two"].map(|name| place.0.join(name));
    for (home, rate) in homes.iter().zip([3e-3, 2e-3]) {
        std::fs::create_dir_all(home).unwrap();
        config["optimizer"]["learning_rate"] = json!(rate);
        config["output"]["failure"] = json!("failure");
        std::fs::write(home.join("worker.json"), config.to_string()).unwrap();
    }
    let at = homes.each_ref().map(std::path::PathBuf::as_path);
    for verb in ["launch", "preflight"] {
        let began = Instant::now();
        let both = ended(hosts(&[verb, "worker.json"], free_port(), at, &[]));
        // Not after join_seconds, 60 here.
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        for (host, home) in both.iter().zip(&homes) {
            let errors = text(&host.stderr);
            assert_eq!(host.status.code(), Some(3), "{errors}");
            let said = "host 1 was given another config or binary than the first host: `optimizer.learning_rate` is 0.002 there \
                        and 0.003 on the first host";
            assert!(errors.lines().last().unwrap().contains(said), "{errors}");
            assert!(std::fs::read_to_string(home.join("failure")).unwrap().contains(said));
        }
    }
}

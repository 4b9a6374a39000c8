//! CloudWatch Logs of training jobs: one stream per host.

use super::client::{Client, List, members};
use serde::Deserialize;
use serde_json::Value;
use trainc_apply::account::{LogEvent, LogFrom, LogPage, LogStream};
use trainc_apply::calls::Call;
use trainc_apply::cloud::Answer;
use trainc_apply::fault::Class;

/// The log group of SageMaker training jobs.
const GROUP: &str = "/aws/sagemaker/TrainingJobs";
/// Maximum number of lines per page (GetLogEvents, `limit`); a page also ends after 1 MiB.
const MOST_LINES: u32 = 10_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StreamAnswer {
    log_stream_name: Option<String>,
    first_event_timestamp: Option<i64>,
    last_event_timestamp: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageAnswer {
    events: Option<Vec<EventAnswer>>,
    next_forward_token: Option<String>,
}

#[derive(Debug, Deserialize)]
struct EventAnswer {
    timestamp: Option<i64>,
    message: Option<String>,
}

pub(super) async fn streams(client: &Client, prefix: &str) -> Answer<Vec<LogStream>> {
    let asked = members([("logGroupName", Some(GROUP.into())), ("logStreamNamePrefix", Some(prefix.into()))]);
    let found: Vec<StreamAnswer> =
        match client.json_list(Call::DescribeLogStreams, asked, List::Optional("logStreams")).await {
            Ok(found) => found,
            // The group is created with the first line of the first job.
            Err(no) if no.class == Class::NotFound => return Ok(Vec::new()),
            Err(no) => return Err(no),
        };
    Ok(found
        .into_iter()
        .filter_map(|stream| {
            Some(LogStream {
                name: stream.log_stream_name?,
                first: stream.first_event_timestamp,
                last: stream.last_event_timestamp,
            })
        })
        .collect())
}

pub(super) async fn events(client: &Client, stream: &str, from: LogFrom<'_>, most: u32) -> Answer<LogPage> {
    let asked = members([
        ("logGroupName", Some(GROUP.into())),
        ("logStreamName", Some(stream.into())),
        ("startFromHead", Some(true.into())),
        ("limit", Some(most.clamp(1, MOST_LINES).into())),
        ("startTime", from.since.map(Value::from)),
        ("nextToken", from.token.map(Value::from)),
    ]);
    let answer: PageAnswer = client.json(Call::GetLogEvents, &asked).await?;
    let events = answer.events.unwrap_or_default().into_iter().map(|event| LogEvent {
        time: event.timestamp.unwrap_or_default(),
        text: event.message.unwrap_or_default(),
    });
    Ok(LogPage { events: events.collect(), next: answer.next_forward_token })
}

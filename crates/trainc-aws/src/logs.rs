//! CloudWatch Logs of training jobs: one stream per host.

use super::errors::fault;
use aws_sdk_cloudwatchlogs::Client;
use trainc_apply::account::{LogEvent, LogFrom, LogPage, LogStream};
use trainc_apply::calls::Call;
use trainc_apply::cloud::Answer;
use trainc_apply::fault::Class;

/// The log group of SageMaker training jobs.
const GROUP: &str = "/aws/sagemaker/TrainingJobs";
/// Maximum number of lines per page (GetLogEvents, `limit`); a page also ends after 1 MiB.
const MOST_LINES: i32 = 10_000;

pub(super) async fn streams(client: &Client, prefix: &str) -> Answer<Vec<LogStream>> {
    let call = Call::DescribeLogStreams;
    let asked = client.describe_log_streams().log_group_name(GROUP).log_stream_name_prefix(prefix);
    let pages = asked.into_paginator().items().send();
    let found = match pages.collect::<Result<Vec<_>, _>>().await.map_err(|error| fault(call, &error)) {
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
    let call = Call::GetLogEvents;
    let asked = client
        .get_log_events()
        .log_group_name(GROUP)
        .log_stream_name(stream)
        .start_from_head(true)
        .limit(i32::try_from(most).unwrap_or(MOST_LINES).clamp(1, MOST_LINES))
        .set_start_time(from.since)
        .set_next_token(from.token.map(str::to_owned));
    let answer = asked.send().await.map_err(|error| fault(call, &error))?;
    let next = answer.next_forward_token;
    let events = answer
        .events
        .unwrap_or_default()
        .into_iter()
        .map(|event| LogEvent {
            time: event.timestamp.unwrap_or_default(),
            text: event.message.unwrap_or_default(),
        })
        .collect();
    Ok(LogPage { events, next })
}

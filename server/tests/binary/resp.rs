//! The command of redis-cell.

use super::{RULES, Running};

fn throttle(connection: &mut redis::Connection, words: &[&str]) -> redis::RedisResult<Vec<i64>> {
    redis::cmd("CL.THROTTLE").arg(words).query(connection)
}

fn connect(server: &Running) -> redis::Connection {
    let client =
        redis::Client::open(format!("redis://{}", server.port("RESP"))).expect("an address");
    client.get_connection().expect("it connects")
}

/// The example of redis-cell's documentation, and its continuation.
#[tokio::test]
async fn answers_are_those_of_redis_cell() {
    let server = Running::start(RULES, &[]);
    let mut connection = connect(&server);
    for left in (0..=15).rev() {
        let [limited, limit, remaining, retry_after, reset_after] =
            throttle(&mut connection, &["user123", "15", "30", "60", "1"]).expect("it decides")[..]
        else {
            panic!("five numbers")
        };
        assert_eq!((limited, limit, remaining, retry_after), (0, 16, left, -1));
        assert!((1..=2 * (16 - left)).contains(&reset_after), "{reset_after}");
    }
    let denied = throttle(&mut connection, &["user123", "15", "30", "60"]).expect("it decides");
    assert_eq!(denied[..4], [1, 16, 0, 2]);
    let look = throttle(&mut connection, &["user123", "15", "30", "60", "0"]).expect("it looks");
    assert_eq!(look[..4], [0, 16, 0, -1]);
    let never =
        throttle(&mut connection, &["user123", "15", "30", "60", "17"]).expect("it decides");
    assert_eq!(never[0], 1);
}

#[tokio::test]
async fn commands_of_a_pipeline_are_answered_in_order() {
    let server = Running::start(RULES, &[]);
    let mut connection = connect(&server);
    let mut pipeline = redis::pipe();
    for number in 0..2000 {
        pipeline.cmd("ECHO").arg(number).cmd("CL.THROTTLE").arg(&["u", "2999", "1", "60"]);
    }
    let answers: Vec<redis::Value> = pipeline.query(&mut connection).expect("all are answered");
    assert_eq!(answers.len(), 4000);
    for (number, pair) in answers.chunks(2).enumerate() {
        let echo: String = redis::from_redis_value(pair[0].clone()).expect("a text");
        let [limited, _, remaining, ..] =
            redis::from_redis_value::<Vec<i64>>(pair[1].clone()).expect("five numbers")[..]
        else {
            panic!("five numbers")
        };
        let left = 2999 - i64::try_from(number).expect("it is small");
        assert_eq!((echo, limited, remaining), (number.to_string(), 0, left));
    }
}

#[tokio::test]
async fn bad_commands_are_refused_and_the_connection_stays() {
    let server = Running::start(RULES, &[]);
    let mut connection = connect(&server);
    for (words, message) in [
        (&["u", "15", "30"][..], "wrong number of arguments"),
        (&["u", "15", "30", "60", "1", "1"], "wrong number of arguments"),
        (&["u", "-1", "30", "60"], "max_burst"),
        (&["u", "15", "x", "60"], "count"),
        (&["u", "15", "0", "60"], "the count and the period: the amount is zero"),
        (&["u", "15", "30", "0"], "the period is zero"),
        (&["", "15", "30", "60"], "empty"),
    ] {
        let error = throttle(&mut connection, words).expect_err("it is refused");
        assert!(error.to_string().contains(message), "{words:?}: {error}");
    }
    let unknown: redis::RedisResult<String> = redis::cmd("GET").arg("x").query(&mut connection);
    assert!(unknown.expect_err("it is refused").to_string().contains("unknown command"));
    assert_eq!(redis::cmd("PING").query::<String>(&mut connection).expect("it stays"), "PONG");
}

//! Worlds that failed once, which stay clean.

use lockage_world::simulation::{Plan, Stage};

/// Worlds that failed once, and the reasons.
const FAILED_ONCE: [(&str, &[u64]); 84] = [
    // In the store on Redis.
    (
        "D11: a request that followed a reply after its call's time was not sent, and its call of a batch was unknown",
        &[5_053_851, 5_065_429],
    ),
    (
        "L8: a check outlasted each attempt of a call that waits for replicas, and a dead connection was never replaced",
        &[5_547, 5_620, 7_481],
    ),
    (
        "L8: a check that passed too late for its caller was a doubt, and a caller that was seldom polled never got through",
        &[737_536_395_394],
    ),
    (
        "L8: a connection that was made and not used was not idle, and its first call got no answer",
        &[111_294, 113_041],
    ),
    ("L8: a connection that was made while nothing waited for it was not idle", &[213_067]),
    (
        "an attempt that failed while nothing waited for it failed a later call",
        &[81_236_019_851, 81_236_024_076, 81_236_031_790, 5_003_310, 810_179_096, 7_017_794],
    ),
    (
        "D11: a call of a batch whose check was not answered in time was not sent, and unknown",
        &[398_350_479_715],
    ),
    // In the client.
    (
        "L10: an acquire was sent without a bound, and a late copy of it took the lock again once its hold was forgotten",
        &[
            4_400_004_245,
            4_400_012_170,
            4_400_075_164,
            4_400_094_727,
            4_400_198_707,
            4_400_208_091,
            4_400_302_648,
            4_400_387_675,
            4_400_436_568,
            4_400_446_218,
            4_400_460_876,
            4_400_461_567,
            4_400_489_076,
            4_400_535_066,
            4_400_599_656,
            4_400_636_874,
            4_400_796_584,
            4_400_800_644,
            4_400_866_155,
            4_400_879_371,
        ],
    ),
    ("L8: a copy on a connection that broke was not given back", &[18_003_763_234_071]),
    (
        "L3: a grant that had ended before replicas were asked counted as one that too few of them have",
        &[600_185_031_411],
    ),
    (
        "D16: the call of a caller that had left the line was charged, and a smaller cost overtook a larger one",
        &[54_464],
    ),
    (
        "D11: the attempts of one wait had an id each, and a late copy was charged beside another one",
        &[4_400_082_473, 4_400_421_056, 4_400_609_905, 4_400_628_186],
    ),
    (
        "D12: a stored limit that ended between two calls was followed by no default",
        &[4_400_838_331],
    ),
    (
        "L14: a lock that is held for at least some time was released as it was lost to its longest hold",
        &[1_000_000_000_000_018_892],
    ),
    // In the law.
    (
        "E1 to E8: a key that is under two limits by turns is in the envelope of none",
        &[27_585_741_175_208, 27_585_741_230_410],
    ),
    (
        "D11: a request with permits ahead was denied, its caller went on without them, and a late copy was admitted",
        &[323_817_161_707],
    ),
    (
        "D12: a node of a cluster that was idle alone was not checked before a call",
        &[323_816_759_366, 323_816_956_485],
    ),
    (
        "L7: a failover and a clock that was set back gave an invalidation a token below that of an older value",
        &[323_816_859_166],
    ),
    (
        "D1: a deny cache did not learn from a decision on several ids that its denial was over",
        &[305_420_115_192_670],
    ),
    // In the judge.
    ("L8: calls that their callers did not poll in time counted as failed", &[398_350_257_879]),
    ("E1 to E8: of two old primaries, the first was taken for the second", &[398_351_067_451]),
    (
        "D11: of two answers that are alike, one was given to the caller of the other",
        &[323_816_298_206, 323_816_598_794, 323_816_670_852, 323_816_852_383, 323_817_175_868],
    ),
    ("D1: a decision under one limit contradicted a denial under the other", &[323_817_081_806]),
    (
        "D1: a denial for want of an early turn contradicted one of a caller that takes any",
        &[519_926_913_960],
    ),
    ("E7: two limits that are drawn alike counted as two", &[81_236_033_908]),
    ("L1: a builder whose own hold a failover may have ended superseded another", &[920_158_080]),
    (
        "L6: a lock that was granted before all was well, and reported after it, counted as granted when all was well",
        &[810_017_352],
    ),
    (
        "L6: of two locks, the one that was granted before all was well counted as granted with the other",
        &[16_588_509_427],
    ),
    (
        "E7: the runtime of a caller was blocked, and others spent permits before it got its own admission",
        &[147_272_247_583],
    ),
    (
        "L6: a holder looked just before its process stood still, and its deadline and the lease ended meanwhile",
        &[427_183_363_212],
    ),
    (
        "L12: what a process did before it stood still came after what it did then, at the moment when that ended",
        &[996_349_295_511],
    ),
    (
        "L14: the clock of the store was set back between a grant and its answer, and the lock counted as granted later",
        &[1_000_000_432_175_966_053, 1_000_000_432_176_023_301],
    ),
    ("L8: waiters asked for more than their limit admits within the patience", &[5_043_787]),
    (
        "E1 to E8: an adjustment drops what has ended, and the clock is set back before that",
        &[810_150_716, 810_034_951, 810_022_734, 810_046_772],
    ),
    ("E7: of two answers that are alike, one had brought permits ahead", &[13_232, 810_003_680]),
    (
        "D11: a waiting caller that a fallback denies asks again, and what it has asked before was charged",
        &[810_003_286],
    ),
    (
        "L1: a process that stands still within a step drops no future meanwhile, and its holder told that it holds \
         the lock after the judge was told that it is gone",
        &[73_253],
    ),
    (
        "D1, E1 to E8: a decision before the process stood still was judged by the time after it",
        &[
            123_169,
            31_000_016_340,
            31_000_086_294,
            31_000_223_477,
            4_400_319_728,
            4_400_323_757,
            4_400_550_887,
            4_400_795_675,
            4_400_818_512,
            4_400_870_023,
        ],
    ),
    (
        "E1 to E8: what a share admits to a turn was judged by the time of the turn",
        &[4_400_398_150, 4_400_482_167, 4_400_585_240, 4_400_854_029],
    ),
    (
        "L8: jobs of a process that stood still began after it crashed, and counted as ended",
        &[31_000_068_485, 4_400_474_353],
    ),
    (
        "L8: a job that was dropped before its process stood still, and then crashed, counted as open",
        &[4_003_042_021_044, 13_286_639_242_656],
    ),
    (
        "L12: a lock that a waiter in line has left is free for others from then on",
        &[4_400_173_358, 4_400_556_287],
    ),
    (
        "D1: a refund that gave nothing back, and its late copy did, was none that a deny cache can know of",
        &[4_400_798_613],
    ),
    (
        "L8: calls while a server was away, after the network was well, counted as failing",
        &[806_593_998_710],
    ),
    ("D12: a record that ends within the present millisecond counted as kept", &[806_594_062_253]),
    (
        "E7: permits that came before the process stood still were judged by the time after it",
        &[806_594_157_717],
    ),
    ("L10: the copy of a change of a latch answered its caller", &[771_000_775]),
    (
        "D12: a caller that did not poll its call had no answer in time, and only idle connections were lost",
        &[
            705_899_029_729,
            705_899_079_392,
            705_899_131_279,
            705_899_133_177,
            705_899_146_418,
            705_899_147_958,
            705_899_267_572,
        ],
    ),
    (
        "D12: at the end the store was asked too seldom to close a circuit, since permits ahead answered",
        &[600_185_403_270],
    ),
    (
        "D1: an admission counted as a denial of the same cost in the same microsecond, which was on its way",
        &[20_927],
    ),
    (
        "E1 to E8: a turn was given back, or a cost corrected, while the clock was set back",
        &[705_899_076_144, 631_921_575_583],
    ),
    (
        "D12: a key that had expired when an old primary took over lived again once the clock was set back",
        &[631_921_346_856],
    ),
    (
        "D12: a key that a fast script had dropped, since it had expired, was still the machine's once the clock was set back",
        &[88_112_262_030],
    ),
    (
        "L12: a lock that was kept to the end of its lease was judged by the default poll, not by the world's",
        &[980_290_540_610],
    ),
    (
        "L8: a caller on a blocked runtime that waited to release a kept lock was judged as if a task would release it",
        &[996_511_563_636],
    ),
    (
        "L9: a writer that had not asked since another writer was granted was judged as if it kept readers out",
        &[565_956_259_286],
    ),
    (
        "L6: a renewal that its caller had given up was made again only after a pause, by another runtime once it was late",
        &[883_706_894_366, 883_707_176_209, 883_707_374_818],
    ),
    (
        "D10: a request waited for a call of several ids that had its id, and no caller of that any more; the judge knew \
         calls of one id alone",
        &[39_544_523_079],
    ),
    (
        "L9: a writer was granted and dropped before it said so, and the judge knew only those that say so",
        &[710_546_505_302],
    ),
    (
        "L8: a guard that was dropped on a blocked runtime had started a task there, which the judge did not know",
        &[883_707_242_314],
    ),
    (
        "D1: a denial of a blocked key for want of an early turn was learned for callers that take a later one",
        &[914_622_482_967],
    ),
    (
        "L12: a lock that was held to its longest time was judged as if its end notified waiters",
        &[914_622_505_994],
    ),
    (
        "D1: of two equal denials, one from before a refund, the judge took the other for the one that a caller had got",
        &[215_523_788_333],
    ),
    (
        "L12: the simulated client ended a subscription at one node after the other, and so one that came later",
        &[565_956_520_899],
    ),
    (
        "L12: the lease of a holder whose runtime had ended, after which a waiter is back within half a poll, was judged as released",
        &[408_151_252_193],
    ),
    (
        "D17: calls of a limiter in flight, of a job that looks, did not count for the breaker that they share",
        &[820_540_328_766],
    ),
    (
        "D10: a call for a key that jobs look at did not count for the two that fill all the room",
        &[37_588_489_217],
    ),
    (
        "E1 to E8: a turn that was given back, or a cost that was settled, behind a block was not seen",
        &[621_818_823_618],
    ),
    (
        "D10: a call that was not polled until its time was over, and sent nothing, counted as a use of its connection",
        &[621_818_835_081],
    ),
    (
        "D11: the output of a process that stood still within the step in which it died came before that",
        &[37_588_656_585],
    ),
    (
        "L8: a call at the end opened the circuit breaker again, and the fallback's answer counted as the store's",
        &[340_621_347_857],
    ),
    (
        "D12: a node of a cluster whose connection had fallen silent was met for the first time when all was well",
        &[686_020_501_647],
    ),
    (
        "D12: the outcomes of a renewal were of a type that the comparison did not know",
        &[120_294_276_208],
    ),
    (
        "L6: a job that left a runtime right after it was blocked counted as one of a runtime that was not",
        &[1449, 13_408, 17_459],
    ),
    (
        "D1: a deny cache kept the denial of a decision on several ids, which had not converted the record",
        &[706_944_887_167_215],
    ),
    (
        "D12: a reservation was not renewed while its slot moved, and its calls of two keys were refused",
        &[706_944_887_522_350],
    ),
    (
        "L8: twelve reservations, each held for five seconds, lasted longer than the end of jobs was waited for",
        &[549_139_367_966_332],
    ),
    (
        "D10: all callers of one of a batch's keys had left, and it went on for a look at another one",
        &[410_946_341_765_868],
    ),
    (
        "D17: a decision on several ids was an answer for the circuit breaker although its second call failed",
        &[3_908_784_639_228_523],
    ),
    (
        "E9: a renewal had moved the time of a record with places, and the clock was set back behind it",
        &[5_544_647_795_312_866],
    ),
    (
        "D1: a request denied with others was taken for one that converts a key of another limit",
        &[7_356_433_569_015_895],
    ),
    (
        "E7: of two answers that are alike, the one that brought a permit ahead was taken for another caller's",
        &[1_726_560_687_020_982],
    ),
    (
        "D1: a guard that shadow mode gave without the store was taken to change its key at its end",
        &[4_597_993_612_169_778],
    ),
    (
        "D11: a caller waited on while another limit forgot its charged request, and was charged again much later",
        &[10_000_000_000_139_744],
    ),
];

#[test]
fn worlds_that_failed_once_are_clean() {
    let mut stage = Stage::new(None).unwrap();
    for (why, seeds) in FAILED_ONCE {
        for seed in seeds {
            for plan in [Plan::without_link(*seed), Plan::of(*seed)] {
                let violation = stage.play(&plan, false).violation;
                assert_eq!(violation, None, "seed {seed}, which failed once: {why}");
            }
        }
    }
}

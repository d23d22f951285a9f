-- The algorithms whose state is a few integers, by the tag of their records. Of a configuration, which is nothing where
-- it is wrong: how many numbers a state has (`size`), which of them is `counted`, `unit` for each unit of cost, which
-- counts what was in the window before (`previous`), and which is the `latest` time that counts; the `capacity` and the
-- length of a `window`; `most`, the most that can be counted with every step exact and every time in range; and whether
-- it is a queue, whose requests have turns, and whether a bucket, which empties as time passes; and the `lease`, of places
-- that are given back. A state with a `warmth` counts on while nothing is used. Behind the configuration stands what a call gives, of a record zeros.
local algorithms = {}
$for_each_algorithm

$about
-- Configuration  $config: $config_words
-- Given          $each_given: $given_words
-- State          $state: $state_words
function algorithms.$TAG($limit)
  local wrong, most
  $wrong
  if wrong then return end
  $most
  local counter = {
    size = $STATES, counted = $COUNTED, latest = $LATEST, previous = $PREVIOUS, is_queue = $IS_QUEUE,
    capacity = $capacity, unit = $unit, window = $window, most = most,
    is_bucket = $IS_BUCKET, lease = $lease, warmth = $WARMTH,
  }

  -- The state as it counts now; a fresh one where there is none.
  function counter.settle($state)
    if not $counted then
      $new
    else
      $settle
    end
    return $state
  end

  -- The units that are used; what remains is the capacity less them.
  function counter.counted_units($state)
    local left
    $left
    return $capacity - floor(left)
  end

  $if_given
  -- Whether the state, or none, cannot be settled now: the clock is off.
  function counter.is_off($state)
    local off
    $off
    return off
  end

  $end_given
  $if_identity
  -- What tells the window that the state is in from others.
  function counter.window_of($state)
    local identity
    $identity
    return identity
  end
  $end_identity

  function counter.fresh_at($state)
    local till
    $fresh_at
    return till
  end

  -- The same for all states within a stretch of time, so that the fast script sets the expiry anew but once in each.
  function counter.kept_until($state)
    local span, till
    $span
    $keep
    return till
  end
  return counter
end
$end

-- @span

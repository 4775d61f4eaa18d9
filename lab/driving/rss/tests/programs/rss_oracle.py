"""Answers with what Intel's ad-rss-lib computes.

Each line of the input is one case of 24 numbers. For the ego vehicle, then for the other one:
response, acceleration, brake_min, brake_min_correct, brake_max, lateral_acceleration,
lateral_brake, fluctuation. Then the direction (0 ahead, 1 behind, 2 oncoming with the ego vehicle
in its own lane, 3 oncoming with the other in its own); gap, ego and other speed along; gap, ego and
other speed across, towards each other; whether the ego vehicle is on the left (1) or not (0).

Each line of the output: safe distance along and whether it is kept (1) or not (0), the same across,
and the way in which the ego vehicle stops.
"""

import os
import sys

from ad_rss import physics, rss


def fill(state, assumptions, speed_along, speed_right, in_own_lane):
    """The state of one road user; the library counts speeds across to the right."""
    (response, acceleration, brake_min, brake_min_correct, brake_max,
     lateral_acceleration, lateral_brake, fluctuation) = assumptions
    state.object_type = rss.world.ObjectType.OtherVehicle
    dynamics = state.dynamics
    dynamics.response_time = physics.Duration(response)
    dynamics.alpha_lon.accel_max = physics.Acceleration(acceleration)
    dynamics.alpha_lon.brake_min = physics.Acceleration(-brake_min)
    dynamics.alpha_lon.brake_min_correct = physics.Acceleration(-brake_min_correct)
    dynamics.alpha_lon.brake_max = physics.Acceleration(-brake_max)
    dynamics.alpha_lat.accel_max = physics.Acceleration(lateral_acceleration)
    dynamics.alpha_lat.brake_min = physics.Acceleration(-lateral_brake)
    dynamics.lateral_fluctuation_margin = physics.Distance(fluctuation)
    # What follows is not used in lanes, but must be in its range.
    settings = dynamics.unstructured_settings
    settings.pedestrian_turning_radius = physics.Distance(2.0)
    settings.drive_away_max_angle = physics.Angle(2.4)
    settings.vehicle_yaw_rate_change = physics.AngularAcceleration(0.3)
    settings.vehicle_min_radius = physics.Distance(3.5)
    settings.vehicle_trajectory_calculation_step = physics.Duration(0.2)
    body = state.unstructured_object_state
    body.yaw = physics.Angle(0.0)
    body.yaw_rate = physics.AngularVelocity(0.0)
    body.steering_angle = physics.Angle(0.0)
    body.dimension.length = physics.Distance(4.0)
    body.dimension.width = physics.Distance(2.0)
    body.center_point.x = physics.Distance(0.0)
    body.center_point.y = physics.Distance(0.0)
    body.speed_range.minimum = physics.Speed(0.0)
    body.speed_range.maximum = physics.Speed(0.0)
    lane = state.structured_object_state
    lane.is_in_correct_lane = in_own_lane
    lane.distance_to_enter_intersection = physics.Distance(0.0)
    lane.distance_to_leave_intersection = physics.Distance(0.0)
    lane.velocity.speed_lon_min = physics.Speed(speed_along)
    lane.velocity.speed_lon_max = physics.Speed(speed_along)
    lane.velocity.speed_lat_min = physics.Speed(speed_right)
    lane.velocity.speed_lat_max = physics.Speed(speed_right)


def answer(case):
    ego, other, rest = case[:8], case[8:16], case[16:]
    direction, gap, ego_speed, other_speed, gap_across, ego_across, other_across, left = rest
    oncoming = direction >= 2
    to_the_right = 1.0 if left else -1.0
    constellation = rss.core.RelativeConstellation()
    constellation.ego_id, constellation.object_id, constellation.constellation_id = 1, 2, 1
    types, along = rss.world.ConstellationType, rss.core.LongitudinalRelativePosition
    constellation.constellation_type = types.OppositeDirection if oncoming else types.SameDirection
    place = constellation.relative_position
    place.longitudinal_position = along.InFront if direction == 1 else along.AtBack
    place.longitudinal_distance = physics.Distance(gap)
    across = rss.core.LateralRelativePosition
    place.lateral_position = across.AtLeft if left else across.AtRight
    place.lateral_distance = physics.Distance(gap_across)
    fill(constellation.ego_state, ego, ego_speed, to_the_right * ego_across, direction != 3)
    fill(constellation.other_state, other, other_speed, -to_the_right * other_across, direction != 2)
    state = rss.state.RssState()
    checker = rss.structured.RssNonIntersectionConstellationChecker()
    if not checker.calculateRssStateNonIntersection(1, constellation, state):
        raise SystemExit(f"refused: {case}")
    sideways = state.lateral_state_right if left else state.lateral_state_left
    stop = physics.Distance()
    rss.structured.calculateLongitudinalDistanceOffsetAfterStatedBrakingPattern(
        physics.Speed(ego_speed), physics.Speed(100.0), physics.Duration(ego[0]),
        physics.Acceleration(ego[1]), physics.Acceleration(-ego[2]), stop)
    lengthwise = state.longitudinal_state
    return [
        lengthwise.rss_state_information.safe_distance.mDistance, int(lengthwise.is_safe),
        sideways.rss_state_information.safe_distance.mDistance, int(sideways.is_safe), stop.mDistance,
    ]


# The library writes what it thinks of each case to the standard output.
answers = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
for line in sys.stdin:
    print(*map(repr, answer([float(word) for word in line.split()])), file=answers)
answers.close()

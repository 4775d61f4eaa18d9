# For tests that run only where messages arrive within publish().
set(rclcpp_STANDS_IN TRUE)

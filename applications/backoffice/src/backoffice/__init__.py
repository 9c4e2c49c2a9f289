"""The billing back office of a telecom provider, on Onbeat."""

"""What a notification is: states, outcomes, evidence, retry, policy. Standard library, no I/O."""

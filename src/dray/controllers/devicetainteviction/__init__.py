"""The device taint eviction controller: it deletes pods whose allocated devices have a NoExecute taint that their claims do not tolerate."""

# The config block of the tasks that are started to check the driver against the contract.
script = "exec sleep 3600"

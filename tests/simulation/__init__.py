"""Jobs, hosts, their disks, clocks and the object store, all driven by a seed: `tests.simulation.run`."""

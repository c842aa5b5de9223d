"""The benchmark: shmcache and its peers on the same inputs, in one run."""

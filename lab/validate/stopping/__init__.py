"""Error rates of runs that stop by themselves, beside fixed designs, group-sequential ones and naive peeking."""

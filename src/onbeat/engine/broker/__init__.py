"""The parts of the engine that are needed only when jobs go over a broker."""

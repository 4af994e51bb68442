"""Work on Apache Beam, for more text than one machine holds. Only --engine=beam imports this package."""

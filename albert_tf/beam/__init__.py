"""Apache Beam pipelines, for more text than one machine can process. Only --engine=beam imports this package."""

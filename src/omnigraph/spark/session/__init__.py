"""The Spark session that the pipeline uses: Java, master, errors, progress, and matching builds."""

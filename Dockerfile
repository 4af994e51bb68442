# An image that serves models over HTTP, on a CPU:
#
#     docker build -t albert_tf .
#     docker run -p 8501:8501 albert_tf
#     docker run -p 8501:8501 -v "$PWD/models:/models" albert_tf serve --host=0.0.0.0 --init_checkpoint=/models/rte
#
# Build arguments: EXTRAS=[all,gpu] installs TensorFlow's CUDA libraries. PYTHON=3.11 installs TensorFlow 2.15, which gets no
# more security fixes, instead of the newest. requirements.txt has the versions.
ARG PYTHON=3.13
FROM python:${PYTHON}-slim-bookworm

ARG EXTRAS=[all]
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1

WORKDIR /opt/albert_tf
COPY pyproject.toml README.md LICENSE requirements.txt ./
COPY albert_tf albert_tf
RUN pip install --constraint=requirements.txt ".${EXTRAS}" \
    && useradd --create-home --uid=1000 albert

USER 1000
WORKDIR /home/albert

EXPOSE 8501
ENTRYPOINT ["albert-tf"]
CMD ["serve", "--host=0.0.0.0", "--port=8501", "--init_checkpoint=albert_tiny_en"]

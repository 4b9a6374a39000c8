#!/usr/bin/env python
# coding: utf-8

# # Train, deploy and predict

# In[1]:


get_ipython().run_line_magic('pip', 'install -U sagemaker')
get_ipython().system('pip list | grep sagemaker')

# In[2]:


import json
import numpy as np
import sagemaker
from sagemaker.pytorch import PyTorch

role = sagemaker.get_execution_role()
sess = sagemaker.Session()
prefix = "sagemaker/DEMO-pytorch-mnist"
inputs = sess.upload_data(path="src", bucket=sess.default_bucket(), key_prefix=prefix)
inputs

# In[3]:


est = PyTorch(entry_point="train.py", source_dir="src", role=role, framework_version="2.0.0", py_version="py310", instance_count=1, instance_type="ml.g4dn.xlarge", hyperparameters={"epochs": 1, "backend": "gloo"})
est.fit({"training": inputs})

# In[4]:


predictor = est.deploy(initial_instance_count=1, instance_type="ml.m5.xlarge")

# In[5]:


image = np.random.rand(1, 1, 28, 28)
response = predictor.predict(image)
prediction = response.argmax(axis=1)[0]
print(prediction)

# In[6]:


predictor.delete_model()
predictor.delete_endpoint()
